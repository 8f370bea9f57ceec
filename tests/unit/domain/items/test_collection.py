"""Neighbours as a collection's setting: valid and invalid values."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.collection import Neighbours, checked_neighbours


def test_two_on_each_side_in_order_of_time_are_the_default() -> None:
    """The item itself weighs as much as two of them."""
    setting = Neighbours(sequence="talk")
    assert setting.as_dict() == {
        "sequence": "talk",
        "order": "occurred_at",
        "before": 2,
        "after": 2,
        "own_weight": 2,
    }
    assert Neighbours(**setting.as_dict()) == setting


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sequence": ""}, "1 to 512 bytes"),
        ({"sequence": "occurred_at"}, "cannot be an attribute's name"),
        ({"sequence": "talk", "order": "kind"}, "cannot be an attribute's name"),
        ({"sequence": "talk", "before": -1}, "before is -1; it must be a whole number from 0 to 20"),
        ({"sequence": "talk", "after": 21}, "after is 21; it must be a whole number from 0 to 20"),
        ({"sequence": "talk", "after": True}, "after is True; it must be a whole number"),
        ({"sequence": "talk", "own_weight": 0}, "own_weight is 0; it must be a whole number from 1 to 100"),
        ({"sequence": "talk", "own_weight": 1.5}, "own_weight is 1.5; it must be a whole number"),
        ({"sequence": "talk", "before": 0, "after": 0}, "use None"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(values: dict[str, Any], message: str) -> None:
    """It says what would do."""
    with pytest.raises(InvalidRequestError, match=message):
        Neighbours(**values)


def test_a_collection_takes_neighbours_or_none() -> None:
    """The error names the expected type."""
    assert checked_neighbours(None) is None
    with pytest.raises(InvalidRequestError, match="Neighbours"):
        checked_neighbours({"sequence": "talk"})
