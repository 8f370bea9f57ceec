"""Traffic: what cannot be estimated from is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from retrieval.domain.errors import InvalidRequestError
from retrieval.learning.off_policy import Traffic

GOOD: dict[str, Any] = {"propensity": [0.5, 1.0], "target": [0.0, 1.0], "reward": [1.0, 0.0]}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"propensity": [0.0, 1.0]}, "propensity"),
        ({"propensity": [0.5, 1.5]}, "propensity"),
        ({"propensity": [0.5, np.nan]}, "propensity"),
        ({"target": [0.0, 1.1]}, "target probability"),
        ({"target": [0.0]}, "an impression"),
        ({"retrieval": [0, 3], "expected": [1.0]}, "numbered"),
        ({"expected": [1.0, 1.0], "direct": [1.0]}, "a retrieval"),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any], said: str) -> None:
    """With a sentence that names what is wrong."""
    with pytest.raises(InvalidRequestError, match=said):
        Traffic.of_rows(**{**GOOD, **changed})


@pytest.mark.parametrize("reward", [-0.1, 1.1])
def test_a_default_reward_outside_its_range_is_refused(reward: float) -> None:
    """It is a reward like any other."""
    with pytest.raises(InvalidRequestError, match="0 to 1"):
        Traffic.of_rows(**GOOD).with_default(reward)


def test_no_traffic_is_traffic() -> None:
    """Without a row every sum is empty."""
    traffic = Traffic.of_rows(propensity=[], target=[], reward=[])
    assert traffic.shown.size == traffic.rated.size == 0
