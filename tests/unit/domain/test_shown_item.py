"""An item of an answer that an application put together."""

from __future__ import annotations

import math
from typing import Any

import pytest

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.shown_item import ShownItem


@pytest.mark.parametrize(
    ("score", "signals", "relevance"),
    [(0.7, {}, 0.7), (3.0, {}, 1.0), (-2.0, {}, 0.0), (3.0, {"relevance": 0.2, "learned": 0.9}, 0.2)],
)
def test_relevance_is_its_signal_or_else_the_score(score: float, signals: dict[str, float], relevance: float) -> None:
    """From 0 to 1, so that a model can learn by it."""
    assert ShownItem(item_id="a", score=score, signals=signals).relevance == relevance


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"item_id": ""}, "'' is no item id"),
        ({"score": math.nan}, "'a': score is nan; it must be a finite number"),
        ({"signals": {"relevance": "high"}}, "'a': signal 'relevance' is 'high'"),
        ({"propensity": 0.0}, "'a': propensity is 0.0; it is above 0 and at most 1"),
        ({"slot": "lucky"}, "'a': slot is 'lucky'; there are exploit, explore, swap"),
    ],
)
def test_what_cannot_be_recorded_is_refused(wrong: dict[str, Any], message: str) -> None:
    """When it is made, and not behind the answer."""
    with pytest.raises(InvalidRequestError, match=message):
        ShownItem(**{"item_id": "a", "score": 1.0, **wrong})
