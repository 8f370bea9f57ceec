"""An item is what PostgreSQL can hold and a search can use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from retrieval.domain.errors import InvalidItemError
from retrieval.domain.items.item import MAX_KEY_BYTES, MAX_NESTING, Item


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"item_id": ""}, "non-empty item_id"),
        ({"item_id": "x" * (MAX_KEY_BYTES + 1)}, "longer than 512 bytes"),
        ({"item_id": "ä" * 300}, "longer than 512 bytes"),
        ({"item_id": 7}, "must be text, not int"),
        ({"title": None}, "title must be text"),
        ({"body": "a\x00b"}, "NUL byte"),
        ({"body": "\ud800"}, "surrogate"),
        ({"tags": "red"}, "tags must be a list"),
        ({"tags": ["ok", 3]}, "a tag must be text"),
        ({"attributes": [1]}, "attributes must be a mapping"),
        ({"attributes": {"a": float("nan")}}, "NaN or infinite"),
        ({"attributes": {"a": object()}}, "JSON cannot hold"),
        ({"attributes": {"a": b"bytes"}}, "JSON cannot hold"),
        ({"attributes": {"a": 10**400}}, "more than 1024 bits"),
        ({"attributes": {1: "a"}}, "name must be text"),
        ({"occurred_at": "2024-01-01"}, "must be a datetime"),
        ({"occurred_at": datetime(2024, 1, 1)}, "no time zone"),  # noqa: DTZ001 - the naive time is the point
        ({"occurred_at": datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))}, "years 1 to 9999"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_reason(fields: Mapping[str, Any], said: str) -> None:
    """Each refusal names the field and what is wrong."""
    with pytest.raises(InvalidItemError, match=said):
        Item(**{"item_id": "a", **fields})


def test_a_refusal_carries_the_items_key() -> None:
    """The caller can tell which of a thousand items it was."""
    with pytest.raises(InvalidItemError) as caught:
        Item(item_id="ticket-7", body="\x00")
    assert caught.value.item_id == "ticket-7"


def test_attributes_nested_too_deep_are_refused() -> None:
    """A depth that would exhaust a JSON reader is an error of the item's, not a crash."""
    nested: Any = 1
    for _ in range(MAX_NESTING + 2):
        nested = [nested]
    with pytest.raises(InvalidItemError, match="nested deeper"):
        Item(item_id="a", attributes={"deep": nested})


def test_repeated_tags_count_once_and_keep_their_order() -> None:
    """Tags are a set that remembers its order."""
    assert Item(item_id="a", tags=("b", "a", "b")).tags == ("b", "a")


def test_times_among_the_attributes_become_text() -> None:
    """JSON has no times; ISO 8601 compares as text in the order of time."""
    when = datetime(2024, 5, 1, tzinfo=UTC)
    item = Item(item_id="a", attributes={"at": when, "on": when.date()})
    assert dict(item.attributes) == {"at": "2024-05-01T00:00:00+00:00", "on": "2024-05-01"}


def test_attributes_cannot_be_changed_afterwards() -> None:
    """An item is frozen, its attributes too, also those of the dictionary it was made from."""
    given = {"priority": "High"}
    item = Item(item_id="a", attributes=given)
    given["priority"] = "Low"
    assert item.attributes["priority"] == "High"
    with pytest.raises(TypeError):
        item.attributes["priority"] = "Low"  # type: ignore[index]


@pytest.mark.parametrize(
    "change",
    [
        {"item_id": "b"},
        {"title": "other"},
        {"body": "other"},
        {"kind": "note"},
        {"tags": ("x",)},
        {"attributes": {"a": 2}},
        {"status": "archived"},
        {"source": "mail"},
        {"occurred_at": datetime(2025, 1, 1, tzinfo=UTC)},
    ],
)
def test_the_content_hash_follows_every_field(change: Mapping[str, Any]) -> None:
    """Whatever changes, the hash does, so that the change is stored."""
    fields: dict[str, Any] = {"item_id": "a", "title": "t", "body": "b", "attributes": {"a": 1}}
    assert Item(**fields).content_hash != Item(**{**fields, **change}).content_hash


def test_the_content_hash_is_the_same_for_the_same_content() -> None:
    """Neither the order of attributes nor the time zone that a moment is written in counts."""
    moment = datetime(2024, 1, 1, 12, tzinfo=UTC)
    elsewhere = moment.astimezone(timezone(timedelta(hours=5)))
    one = Item(item_id="a", attributes={"x": 1, "y": 2}, occurred_at=moment)
    other = Item(item_id="a", attributes={"y": 2, "x": 1}, occurred_at=elsewhere)
    assert one.content_hash == other.content_hash


def test_text_is_title_and_body() -> None:
    """What is embedded and indexed is both, and neither when they are empty."""
    assert Item(item_id="a", title="T", body="B").text == "T\nB"
    assert Item(item_id="a", body="B").text == "B"
    assert Item(item_id="a").text == ""
