"""Measures of honesty, by figures worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from retrieval.domain.errors import InvalidRequestError
from retrieval.learning.calibration import calibration_error, log_losses


def test_log_loss_is_the_mean_surprise() -> None:
    """-ln of the probability of the outcome; a reward in between counts for both outcomes."""
    losses = log_losses(np.array([0.8, 0.8, 0.5]), np.array([1.0, 0.0, 0.3]))

    assert losses == pytest.approx([-math.log(0.8), -math.log(0.2), math.log(2)])


def test_certainty_that_was_wrong_costs_much_and_not_everything() -> None:
    """Predictions are clipped a millionth away from 0 and 1."""
    assert log_losses(np.array([0.0]), np.array([1.0])) == pytest.approx([-math.log(1e-6)])


def test_calibration_error_is_the_mean_gap_between_promise_and_reward() -> None:
    """In five bins .2 is promised and .5 earned, in the other five .8 promised and .8 earned."""
    predicted = np.array([0.2] * 50 + [0.8] * 50)
    rewards = np.array([1.0, 0.0] * 25 + [*[1.0] * 8, 0.0, 0.0] * 5)

    assert calibration_error(predicted, rewards) == pytest.approx(0.15)


def test_no_predictions_and_lengths_that_differ_are_refused() -> None:
    """The message counts them."""
    for predicted, rewards in ((np.array([]), np.array([])), (np.array([0.5]), np.array([1.0, 0.0]))):
        with pytest.raises(InvalidRequestError, match="give one for each"):
            calibration_error(predicted, rewards)
