"""Measures of honesty, by figures worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from retrieval.domain.errors import InvalidRequestError
from retrieval.learning.calibration import calibration_error, interval_coverage, intervals, log_loss, log_losses


def test_log_loss_is_the_mean_surprise() -> None:
    """-ln of what was predicted for what happened; a reward in between counts for both sides."""
    losses = log_losses(np.array([0.8, 0.8, 0.5]), np.array([1.0, 0.0, 0.3]))

    assert losses == pytest.approx([-math.log(0.8), -math.log(0.2), math.log(2)])
    assert log_loss(np.array([0.8, 0.8]), np.array([1.0, 0.0]), np.array([3.0, 1.0])) == pytest.approx(
        -(3 * math.log(0.8) + math.log(0.2)) / 4
    )


def test_certainty_that_was_wrong_costs_much_and_not_everything() -> None:
    """Predictions are kept a millionth away from 0 and 1."""
    assert log_loss(np.array([0.0]), np.array([1.0])) == pytest.approx(-math.log(1e-6))


def test_calibration_error_is_the_mean_gap_between_promise_and_reward() -> None:
    """Two bins: .2 promised and .5 earned, .8 promised and .8 earned."""
    predicted = np.array([0.2] * 10 + [0.8] * 10)
    rewards = np.array([1.0, 0.0] * 5 + [1.0] * 8 + [0.0] * 2)

    assert calibration_error(predicted, rewards, bins=2) == pytest.approx(0.15)


def test_coverage_is_the_share_of_true_rates_inside() -> None:
    """A uniform distribution holds 90 % between .05 and .95: one of two."""
    low, high = intervals(np.array([0.5]), np.array([2.0]))

    assert (low[0], high[0]) == pytest.approx((0.05, 0.95))
    assert interval_coverage(np.full(2, 0.5), np.full(2, 2.0), np.array([0.06, 0.96])) == 0.5


def test_no_predictions_and_lengths_that_differ_are_refused() -> None:
    """The message counts them."""
    for predicted, rewards in ((np.array([]), np.array([])), (np.array([0.5]), np.array([1.0, 0.0]))):
        with pytest.raises(InvalidRequestError, match="give one for each"):
            calibration_error(predicted, rewards)
