"""The outcome of each of many items."""

from __future__ import annotations

from retrieval.domain.errors import InvalidItemError
from retrieval.domain.items.item import Became, Item
from retrieval.services.add import outcomes_of


def test_each_item_of_a_batch_has_the_outcome_that_it_would_have_alone() -> None:
    """Also where an id comes twice: the second one meets what the first one left."""
    old, new = Item(item_id="a", title="old"), Item(item_id="a", title="new")
    other, refused = Item(item_id="b"), InvalidItemError("no", item_id="c")

    outcomes = outcomes_of([new, new, old, refused, other, other], {"a": old.content_hash})

    assert [outcome.became for outcome in outcomes] == [
        Became.CHANGED, Became.UNCHANGED, Became.CHANGED, None, Became.ADDED, Became.UNCHANGED,
    ]  # fmt: skip
    assert [outcome.item_id for outcome in outcomes] == ["a", "a", "a", "c", "b", "b"]
    assert [outcome.error for outcome in outcomes] == [None, None, None, refused, None, None]
