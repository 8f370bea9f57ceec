"""An item is what PostgreSQL can hold and a search can use; its versions and merge patches."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from retrieval.domain.errors import InvalidItemError, InvalidRequestError, VersionConflictError
from retrieval.domain.items.item import (
    ABSENT,
    ANY,
    MAX_KEY_BYTES,
    MAX_NESTING,
    Item,
    StoredItem,
    check_version,
    checked_changes,
    merged,
    version_of,
)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"item_id": ""}, "non-empty id"),
        ({"item_id": "x" * (MAX_KEY_BYTES + 1)}, "longer than 512 bytes"),
        ({"item_id": "ä" * 300}, "longer than 512 bytes"),
        ({"item_id": 7}, "must be text, not int"),
        ({"title": None}, "title must be text"),
        ({"body": "a\x00b"}, "NUL byte"),
        ({"body": "\ud800"}, "surrogate"),
        ({"tags": "red"}, "tags must be a list"),
        ({"tags": ["ok", 3]}, "a tag must be text"),
        ({"attributes": [1]}, "metadata must be a mapping"),
        (
            {"attributes": dict.fromkeys(map(str, range(1001)))},
            "has 1,001 attributes, and at most 1,000 fit; put names",
        ),
        ({"attributes": {"a": float("nan")}}, "NaN or infinite"),
        ({"attributes": {"a": object()}}, "JSON cannot hold; make it a text, a number or a list"),
        ({"attributes": {"a": {"b": [1, {"c": object()}]}}}, r"attribute 'a' at \['b'\]\[1\]\['c'\] is an object"),
        ({"attributes": {"a": [["x"], "y\0"]}}, r"attribute 'a' at \[1\] holds U\+0000"),
        ({"attributes": {"a": Decimal("1.5")}}, "attribute 'a' is a Decimal, which JSON cannot hold; make it a text"),
        ({"attributes": {"a": b"bytes"}}, "JSON cannot hold"),
        ({"attributes": {"a": 10**400}}, "more than 1024 bits"),
        ({"attributes": {1: "a"}}, "name must be text"),
        ({"occurred_at": "2024-01-01"}, "must be a datetime"),
        ({"occurred_at": datetime(2024, 1, 1)}, "with a time zone"),  # noqa: DTZ001 - the naive time is the point
        ({"occurred_at": datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))}, "years 1 to 9999"),
    ],
)
def test_invalid_items_are_refused_with_a_reason(fields: Mapping[str, Any], message: str) -> None:
    """Each refusal names the field and what is wrong."""
    with pytest.raises(InvalidItemError, match=message):
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
    attributes = {"priority": "High"}
    item = Item(item_id="a", attributes=attributes)
    attributes["priority"] = "Low"
    assert item.attributes["priority"] == "High"
    with pytest.raises(TypeError):
        item.attributes["priority"] = "Low"  # type: ignore[index]


def test_an_item_can_be_sent_to_another_process_and_copied() -> None:
    """The attributes stay frozen."""
    item = Item(item_id="a", tags=["t"], attributes={"more": {"n": 1}})  # type: ignore[arg-type]
    for same in (pickle.loads(pickle.dumps(item)), copy.deepcopy(item), Item(**asdict(item))):  # noqa: S301 - our own
        assert same == item
        with pytest.raises(TypeError):
            same.attributes["more"] = 1  # type: ignore[index]


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
    """A change of any field changes the hash, so that the change is stored."""
    fields: dict[str, Any] = {"item_id": "a", "title": "t", "body": "b", "attributes": {"a": 1}}
    assert Item(**fields).content_hash != Item(**{**fields, **change}).content_hash


def test_the_content_hash_is_the_same_for_the_same_content() -> None:
    """Neither the order of attributes nor a time's zone matters."""
    moment = datetime(2024, 1, 1, 12, tzinfo=UTC)
    elsewhere = moment.astimezone(timezone(timedelta(hours=5)))
    item = Item(item_id="a", attributes={"x": 1, "y": 2}, occurred_at=moment)
    other = Item(item_id="a", attributes={"y": 2, "x": 1}, occurred_at=elsewhere)
    assert item.content_hash == other.content_hash


def test_text_is_title_and_body() -> None:
    """Both are embedded and indexed, and neither if they are empty."""
    assert Item(item_id="a", title="T", body="B").indexed_text == "T\nB"
    assert Item(item_id="a", body="B").indexed_text == "B"
    assert Item(item_id="a").indexed_text == ""


THEN = datetime(2024, 5, 31, 12, tzinfo=UTC)


def test_a_version_follows_from_content_and_time() -> None:
    """The same from the same; another for other content, and for the same content that came back later."""
    version = version_of(b"one", THEN)

    assert version == version_of(b"one", THEN)
    assert len({version, version_of(b"two", THEN), version_of(b"one", THEN + timedelta(microseconds=1))}) == 3
    assert len(version) == 16
    assert version.replace("-", "").replace("_", "").isalnum()


def test_times_before_1970_have_versions_too() -> None:
    """No clock makes one fail."""
    assert version_of(b"", datetime(1, 1, 1, tzinfo=UTC)) != version_of(b"", datetime(9999, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("stored_version", "required_version"), [(None, None), ("v", None), ("v", "v"), (None, ABSENT), ("v", ANY)]
)
def test_an_item_that_is_as_wanted_passes(stored_version: str | None, required_version: str | None) -> None:
    """The required version, absence or existence matches the stored item."""
    check_version("a", stored_version, required_version)


@pytest.mark.parametrize(
    ("stored_version", "required_version", "message"),
    [
        ("v", "w", "was changed since"),
        (None, "w", "item 'a' does not exist"),
        (None, ANY, "item 'a' does not exist"),
        ("v", ABSENT, "already exists"),
    ],
)
def test_an_item_that_is_not_as_wanted_is_a_conflict(
    stored_version: str | None, required_version: str, message: str
) -> None:
    """The message gives the cause and the remedy, and the error names the item."""
    with pytest.raises(VersionConflictError, match=message) as raised:
        check_version("a", stored_version, required_version)
    assert raised.value.item_id == "a"


def test_a_version_is_a_text() -> None:
    """Anything else is the caller's mistake, and no conflict."""
    with pytest.raises(InvalidRequestError, match="is the text that came with the item"):
        check_version("a", "v", 1)  # type: ignore[arg-type]


def test_an_item_is_read_by_the_names_by_which_it_is_given() -> None:
    """The names of the fields work too."""
    item = Item(item_id="a", title="t", body="b", attributes={"n": 1})
    assert (item.id, item.text, item.metadata) == ("a", "b", {"n": 1})


def test_plain_values_are_those_of_the_item_and_its_version() -> None:
    """These values are the JSON output."""
    item = Item(item_id="a", title="t", tags=("x",), attributes={"n": 1}, occurred_at=THEN)
    stored = StoredItem(item=item, version="v", created_at=THEN, updated_at=THEN + timedelta(days=1))

    assert stored.as_dict() == {
        "id": "a",
        "title": "t",
        "text": "",
        "kind": "",
        "tags": ["x"],
        "metadata": {"n": 1},
        "status": "active",
        "source": "",
        "occurred_at": "2024-05-31T12:00:00+00:00",
        "version": "v",
        "created_at": "2024-05-31T12:00:00+00:00",
        "updated_at": "2024-06-01T12:00:00+00:00",
    }


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        # The cases of RFC 7396, appendix A.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_patch_changes_what_it_names(target: Any, patch: Any, expected: Any) -> None:
    """Null removes a member, an object is merged, any other value replaces the old one."""
    assert merged(target, patch) == expected


def test_the_target_stays_as_it_was() -> None:
    """The result is another value."""
    target: dict[str, Any] = {"a": {"b": 1}}
    merged(target, {"a": {"b": 2}})
    assert target == {"a": {"b": 1}}


def test_a_bottomless_patch_is_refused() -> None:
    """Before Python's own stack would end."""
    patch: dict[str, Any] = {}
    for _ in range(5000):
        patch = {"a": patch}
    with pytest.raises(InvalidItemError, match="deeper than 64 levels"):
        merged({}, patch)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([], "changes are an object"),
        ({"colour": "red"}, "an item has no 'colour'"),
        ({"item_id": "b"}, "the id of an item cannot change"),
        ({"attributes": 3}, "metadata must be an object"),
        ({"text": "a", "title": "t", "body": "b"}, "'text' and 'body' are one field"),
    ],
)
def test_changes_name_fields_of_an_item(changes: Any, message: str) -> None:
    """Unknown fields, and the id, are refused; the error has the item's id."""
    with pytest.raises(InvalidItemError, match=message) as raised:
        checked_changes("a", changes)
    assert raised.value.item_id == "a"


def test_changes_may_repeat_the_id() -> None:
    """A client may send back the item that it read."""
    assert checked_changes("a", {"id": "a", "title": "t"}) == {"item_id": "a", "title": "t"}


def test_changes_have_the_names_by_which_items_are_given() -> None:
    """The names of the fields work too."""
    fields = {"body": "t", "attributes": {"n": 1}}
    assert checked_changes("a", {"text": "t", "metadata": {"n": 1}}) == checked_changes("a", fields) == fields
