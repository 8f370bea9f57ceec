"""An item of an answer that an application put together."""

from __future__ import annotations

import math
from typing import Any

import pytest

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.records.slate import ShownItem


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
        ({"item_id": ""}, "'' is not an item id"),
        ({"item_id": "\ud800"}, "is not an item id"),
        ({"score": 10**5000}, "'a': score is a number of many digits"),
        ({"signals": None}, "'a': signals are None; give numbers by name"),
        ({"signals": {"a\0b": 1.0}}, "'a': signals are "),
        ({"signals": {"\ud800": 1.0}}, "'a': signals are "),
        ({"signals": {1: 1.0}}, "'a': signals are "),
        ({"score": math.nan}, "'a': score is nan; it must be a finite number"),
        ({"signals": {"relevance": "high"}}, "'a': relevance is 'high'"),
        ({"propensity": 0.0}, "'a': propensity is 0.0; it is above 0, at most 1"),
        ({"propensity": 0.5, "rank_propensity": 0.6}, "'a': rank_propensity is 0.6; it is above 0, at most 0.5"),
        ({"rank_propensity": 0}, "'a': rank_propensity is 0; it is above 0"),
        ({"slot": "lucky"}, "there is no slot 'lucky'; there are: exploit, explore, swap"),
    ],
)
def test_invalid_items_are_refused_at_construction(wrong: dict[str, Any], message: str) -> None:
    """The constructor refuses it, before the answer is sent."""
    with pytest.raises(InvalidRequestError, match=message):
        ShownItem(**{"item_id": "a", "score": 1.0, **wrong})


def test_a_shown_item_copies_its_mapping() -> None:
    """It waits to be recorded, while the caller goes on with a mapping of its own."""
    signals = {"relevance": 0.2}
    item = ShownItem(item_id="a", score=1.0, signals=signals)
    signals["relevance"] = 0.9
    assert (dict(item.signals), item.relevance) == ({"relevance": 0.2}, 0.2)
