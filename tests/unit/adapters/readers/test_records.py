"""From a record to an item."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from retrieval.adapters.readers import item_from_record
from retrieval.adapters.readers.records import mapped_columns
from retrieval.domain.errors import ConfigurationError, InvalidItemError
from retrieval.domain.items.item import MAX_KEY_BYTES, MAX_NESTING, Item


def nested(levels: int) -> Any:
    """A list nested that many times."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_a_beir_record_becomes_an_item() -> None:
    """The four names of BEIR's format fill the item; metadata become attributes."""
    item = item_from_record({"_id": "d1", "title": "A title", "text": "A text", "metadata": {"year": 2020}})

    assert Item(item_id="d1", title="A title", body="A text", attributes={"year": 2020}) == item


@pytest.mark.parametrize("name", ["_id", "item_id", "id"])
def test_the_id_has_three_names(name: str) -> None:
    """Any of the three names gives the id."""
    assert item_from_record({name: "d1"}).item_id == "d1"


@pytest.mark.parametrize("name", ["text", "body", "content", "page_content", "document"])
def test_the_body_has_two_names(name: str) -> None:
    """All of them are what others call it."""
    assert item_from_record({"_id": "d1", name: "words"}).body == "words"


def test_values_that_are_not_texts_become_attributes() -> None:
    """A document may be an object or a number; ``text`` itself has to be one."""
    item = item_from_record({"_id": "d1", "document": 7, "content": {"pages": 2}})
    assert Item(item_id="d1", attributes={"document": 7, "content": {"pages": 2}}) == item
    assert item_from_record({"_id": "d1", "text": "a", "content": "b"}).attributes == {"content": "b"}


@pytest.mark.parametrize("name", ["metadata", "attributes"])
def test_metadata_have_two_names(name: str) -> None:
    """``metadata`` and ``attributes`` are the same."""
    assert item_from_record({"_id": "d1", name: {"a": 1}}).attributes == {"a": 1}


def test_a_whole_number_as_id_becomes_its_text() -> None:
    """An integer id is the text of it."""
    assert item_from_record({"_id": 7}).item_id == "7"


@pytest.mark.parametrize("record", [{}, {"_id": None}, {"_id": True}, {"_id": 1.5}, {"_id": []}, {"_id": ""}])
def test_no_usable_id_is_refused(record: dict[str, Any]) -> None:
    """Missing, null, boolean, fractional and empty ids are errors that name the field."""
    with pytest.raises(InvalidItemError, match="id"):
        item_from_record({**record, "text": "words"})


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"SKU": "A-1", "name": "Shoe"}, "; there are: 'SKU', 'name'"),
        ({"ID": "A-1", "name": "Shoe"}, "; did you mean 'ID'? There are: 'ID', 'name'"),
        ({"_id": None}, "'_id' is null; an id is a text or a whole number; there are none"),
    ],
)
def test_without_an_id_the_existing_entries_are_listed(record: dict[str, Any], message: str) -> None:
    """The message names the column that must be renamed."""
    with pytest.raises(InvalidItemError) as raised:
        item_from_record(record)
    assert str(raised.value).endswith(message)


def test_an_id_that_is_too_long_is_refused() -> None:
    """512 bytes pass, 513 do not."""
    assert item_from_record({"_id": "x" * MAX_KEY_BYTES}).item_id == "x" * MAX_KEY_BYTES
    with pytest.raises(InvalidItemError, match="longer than 512 bytes"):
        item_from_record({"_id": "x" * (MAX_KEY_BYTES + 1)})


@pytest.mark.parametrize("where", ["top", "metadata"])
def test_reserved_names_fill_their_own_fields(where: str) -> None:
    """Kind, tags, status, source and time are fields, at the top and in the metadata."""
    fields = {
        "kind": "bug",
        "tags": ["a", "b"],
        "status": "open",
        "source": "jira",
        "occurred_at": "2024-05-31T12:00:00Z",
    }
    item = item_from_record({"_id": "d1", **(fields if where == "top" else {"metadata": fields})})

    expected = Item(
        item_id="d1",
        kind="bug",
        tags=("a", "b"),
        status="open",
        source="jira",
        occurred_at=datetime(2024, 5, 31, 12, tzinfo=UTC),
    )
    assert expected == item


def test_the_top_goes_before_the_metadata() -> None:
    """If a name has two values, the top level's is used; a field's name in the metadata is then an attribute."""
    item = item_from_record(
        {"_id": "d1", "kind": "top", "a": "top", "metadata": {"kind": "below", "a": "below", "b": "below"}}
    )

    assert item.kind == "top"
    assert item.attributes == {"kind": "below", "a": "top", "b": "below"}


def test_nothing_that_a_record_says_is_lost() -> None:
    """Unknown names at the top, and second names for one field, become attributes."""
    item = item_from_record({"_id": "d1", "id": 5, "text": "t", "body": "b", "url": "u"})

    assert item.body == "t"
    assert item.attributes == {"id": 5, "body": "b", "url": "u"}


def test_null_counts_as_missing() -> None:
    """Null entries are dropped at the top and in the metadata, and another name may replace them."""
    record = {
        "_id": None,
        "id": "d1",
        "title": None,
        "text": None,
        "x": None,
        "metadata": {"y": None, "z": 0},
    }

    assert Item(item_id="d1", attributes={"z": 0}) == item_from_record(record)


@pytest.mark.parametrize("status", ["", None])
def test_an_empty_status_is_the_default(status: str | None) -> None:
    """An item without a status is active."""
    assert item_from_record({"_id": "d1", "status": status}).status == "active"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-05-31T12:00:00Z", datetime(2024, 5, 31, 12, tzinfo=UTC)),
        ("2024-05-31T12:00:00+02:00", datetime(2024, 5, 31, 10, tzinfo=UTC)),
        ("2024-05-31T12:00:00", datetime(2024, 5, 31, 12, tzinfo=UTC)),
        (" 2024-05-31 12:00 ", datetime(2024, 5, 31, 12, tzinfo=UTC)),
        ("2024-05-31", datetime(2024, 5, 31, tzinfo=UTC)),
        (date(2024, 5, 31), datetime(2024, 5, 31, tzinfo=UTC)),
        (datetime(2024, 5, 31, 12), datetime(2024, 5, 31, 12, tzinfo=UTC)),  # noqa: DTZ001 - the case
        (
            datetime(2024, 5, 31, 12, tzinfo=timezone(timedelta(hours=2))),
            datetime(2024, 5, 31, 10, tzinfo=UTC),
        ),
        ("", None),
    ],
)
@pytest.mark.parametrize("name", ["occurred_at", "event_time"])
def test_times_are_read_as_utc(name: str, value: object, expected: datetime | None) -> None:
    """Times come out in UTC: without a zone they are UTC, a date alone is midnight, empty is none."""
    assert item_from_record({"_id": "d1", name: value}).occurred_at == expected


@pytest.mark.parametrize("value", ["yesterday", "2024-02-30", 1717156800, True, [], "0001-01-01T00:00:00+14:00"])
def test_an_invalid_time_is_refused(value: object) -> None:
    """Anything else is an error that shows a right example."""
    with pytest.raises(InvalidItemError, match="2024-05-31T12:00:00Z") as caught:
        item_from_record({"_id": "d1", "event_time": value})
    assert caught.value.item_id == "d1"


@pytest.mark.parametrize(
    "wrong",
    [
        {"title": 5},
        {"text": ["a"]},
        {"text": {"a": 1}},
        {"metadata": []},
        {"metadata": "text"},
        {"tags": "a,b"},
        {"tags": [1]},
        {"kind": 5},
        {"source": {"a": 1}},
        {"status": 0},
        {"text": "a\x00b"},
        {"metadata": {"a": "\x00"}},
        {"metadata": {"\x00": "a"}},
        {"title": "\ud800"},
        {"metadata": {"a": ["\ud800"]}},
        {"metadata": {"a": float("nan")}},
        {"metadata": {"a": float("inf")}},
        {"metadata": {"a": 10**400}},
        {"metadata": {"a": {"b": [-(10**400)]}}},
        {"metadata": {"a": nested(MAX_NESTING + 2)}},
    ],
)
def test_wrong_values_are_refused_with_the_items_key(wrong: dict[str, Any]) -> None:
    """Types and characters that cannot be stored are errors that carry the key."""
    with pytest.raises(InvalidItemError) as caught:
        item_from_record({"_id": "d1", **wrong})
    assert caught.value.item_id == "d1"


@pytest.mark.parametrize("name", ["embedding", "embeddings", "vector", "vectors"])
@pytest.mark.parametrize("vector", [[0.1, 1], (0.1,), np.ones(2), [[0.1], [1.0]], "[0.1, -2e-3]", "[0.1 1.0]"])
def test_a_vector_beside_the_text_is_refused(name: str, vector: object) -> None:
    """As an attribute it would never be compared; the error says where vectors and where data are given."""
    with pytest.raises(
        InvalidItemError, match=rf"'{name}' holds a vector.*leave it out.*'metadata'.*embeddings="
    ) as caught:
        item_from_record({"_id": "d1", "text": "words", name: vector})
    assert caught.value.item_id == "d1"


@pytest.mark.parametrize("value", ["north", [], ["north"], [True], [None], 3, {"x": 1}, "[]", "[a, b]"])
def test_other_values_under_a_vectors_name_are_attributes(value: object) -> None:
    """A map has vectors of its own kind; and in the metadata even numbers are data."""
    assert item_from_record({"_id": "d1", "vector": value}).attributes == {"vector": value}
    assert item_from_record({"_id": "d1", "metadata": {"vector": [0.1]}}).attributes == {"vector": [0.1]}


def test_attributes_may_be_deep_and_numbers_large_within_limits() -> None:
    """The deepest attribute and the largest numbers that are allowed pass unchanged."""
    attributes = {"deep": nested(MAX_NESTING), "large": 10**300, "small": -(10**300)}

    assert item_from_record({"_id": "d1", "metadata": attributes}).attributes == attributes


def test_an_id_beyond_all_numbers_is_refused() -> None:
    """A number with hundreds of digits is not an id."""
    with pytest.raises(InvalidItemError, match="write it as text"):
        item_from_record({"_id": 10**5000})


@pytest.mark.parametrize("record", [None, "text", 5, ["a"]])
def test_a_value_that_is_not_an_object_is_refused(record: Any) -> None:
    """Only an object can be an item."""
    with pytest.raises(InvalidItemError, match="object with an 'id'"):
        item_from_record(record)


def test_the_record_stays_as_it_was() -> None:
    """Reading a record does not change it."""
    record = {"_id": "d1", "kind": "bug", "metadata": {"tags": ["a"], "x": None}}
    before = {"_id": "d1", "kind": "bug", "metadata": {"tags": ["a"], "x": None}}

    item_from_record(record)

    assert before == record


def test_columns_are_given_by_field() -> None:
    """Only the first equals sign parts the two."""
    assert mapped_columns(["_id=ticket_id", "text = a = b"]) == {"_id": "ticket_id", "text": "a = b"}


@pytest.mark.parametrize("pair", ["_id", "_id=", "=ticket_id", ""])
def test_half_a_pair_is_refused(pair: str) -> None:
    """The message shows how to write it."""
    with pytest.raises(ConfigurationError, match="write FIELD=NAME"):
        mapped_columns([pair])


def test_a_field_takes_one_column() -> None:
    """Two columns for one field contradict each other."""
    with pytest.raises(ConfigurationError, match="twice"):
        mapped_columns(["text=a", "text=b"])


def test_a_deep_list_or_a_long_text_under_a_vectors_name_is_checked_at_once() -> None:
    """A list has a bound of levels like any attribute's, and a text is read once: twenty megabytes in a moment."""
    deep: object = 0.5
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(InvalidItemError, match="nested deeper than 64 levels"):
        item_from_record({"_id": "d1", "vector": deep})
    digits = "1" * 10_000_000
    for text in (f"[{digits}", f"[{digits}x]"):
        assert item_from_record({"_id": "d1", "vector": text}).attributes == {"vector": text}
