"""The mapping of columns to fields."""

from __future__ import annotations

import pytest

from retrieval.adapters.readers.csv_files import plan_columns
from retrieval.domain.errors import ConfigurationError, InvalidItemError
from retrieval.domain.items.item import Item


def item_of(header: str, *row: str, columns: dict[str, str] | None = None) -> Item:
    """The item of a row under a header with blanks around its names."""
    return plan_columns("tickets.csv", header.split(), columns).item(row)


def test_mapped_columns_are_fields_and_the_others_attributes() -> None:
    """The mapping names the column of each field; other columns are kept."""
    columns = {"_id": "ticket_id", "text": "description", "tags": "labels"}

    item = item_of("ticket_id description labels priority", "007", "words", "a;b", "Major", columns=columns)

    assert Item(item_id="007", body="words", tags=("a", "b"), attributes={"priority": "Major"}) == item


def test_columns_with_a_fields_name_need_no_mapping() -> None:
    """The names of BEIR's format are understood in a header too."""
    item = item_of("_id title text event_time status", "1", "T", "B", " 2024-05-31 ", "open")

    assert (item.title, item.body, item.status) == ("T", "B", "open")
    assert item.occurred_at is not None
    assert item.occurred_at.isoformat() == "2024-05-31T00:00:00+00:00"


def test_an_earlier_name_of_a_field_goes_first_wherever_it_stands() -> None:
    """``_id`` is the id even right of ``id``, which is then an attribute."""
    assert Item(item_id="a", attributes={"id": 5}) == item_of("id _id", "5", "a")


def test_a_fields_own_column_is_an_attribute_when_the_field_is_mapped_elsewhere() -> None:
    """No column is lost."""
    item = item_of("_id title summary", "1", "old", "new", columns={"title": "summary"})

    assert Item(item_id="1", title="new", attributes={"title": "old"}) == item


def test_a_mapping_can_rename_an_attribute() -> None:
    """The part after ``attributes.`` is its name."""
    item = item_of("_id resolution_hours", "1", "2.5", columns={"attributes.hours": "resolution_hours"})

    assert item.attributes == {"hours": 2.5}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5),
        ("-0", 0),
        (" 12 ", 12),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("false", False),
        ("True", "True"),
        ("007", "007"),
        ("+5", "+5"),
        (".5", ".5"),
        ("1,5", "1,5"),
        ("٥", "٥"),  # noqa: RUF001 - a digit, and not JSON's
        ("NaN", "NaN"),
        ("1e999", "1e999"),
        ("9" * 400, "9" * 400),
        ("null", "null"),
        ("[1]", "[1]"),
        (" two words", " two words"),
    ],
)
def test_attributes_are_typed_as_json_would(text: str, expected: object) -> None:
    """JSON numbers, ``true`` and ``false`` are values; everything else stays the text it is."""
    value = item_of("_id x", "1", text).attributes["x"]

    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_value_is_missing(text: str) -> None:
    """An empty cell is neither an attribute nor a field."""
    assert Item(item_id="1") == item_of("_id x status occurred_at tags", "1", text, text, text, text)


@pytest.mark.parametrize("text", ["007", "5", "true", "1e3", "5.0"])
def test_the_id_is_always_text(text: str) -> None:
    """No id is read as a number."""
    assert item_of("_id", text).item_id == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b", ("a", "b")),
        ("a, b ,a", ("a", "b")),
        ("a,b;c", ("a,b", "c")),
        ('["a;b", "c"]', ("a;b", "c")),
        ("['a;b', 'c']", ("a;b", "c")),
        ("['a\\d']", ("['a\\d']",)),
        ("[a], [b]", ("[a]", "[b]")),
        ("[x]", ("[x]",)),
        ("a;;", ("a",)),
        ("5", ("5",)),
    ],
)
def test_tags_are_split(text: str, expected: tuple[str, ...]) -> None:
    """A list as JSON or Python writes it, or semicolons, or commas where there is no semicolon."""
    assert item_of("_id tags", "1", text).tags == expected


def test_tags_in_a_list_must_be_texts() -> None:
    """A JSON list of anything else is a bad row."""
    with pytest.raises(InvalidItemError, match="tag"):
        item_of("_id tags", "1", "[1]")


def test_a_repeated_column_keeps_all_that_it_says() -> None:
    """Tags take all values, a field the first that is not empty, an attribute the list."""
    item = item_of("_id tags tags title title x x y y", "1", "a", "b", "", "T", "5", "", "", "")

    assert Item(item_id="1", title="T", tags=("a", "b"), attributes={"x": [5]}) == item


@pytest.mark.parametrize("field", ["_id", "title", "text", "kind", "status", "source", "occurred_at"])
def test_a_row_that_says_two_things_in_the_columns_of_one_field_is_refused(field: str) -> None:
    """Different values are ambiguous; the same value twice is accepted."""
    plan = plan_columns("tickets.csv", ["_id", field, field])
    one, other = ("2024-05-31", "2024-06-01") if field == "occurred_at" else ("1", "2")
    with pytest.raises(InvalidItemError, match=r"the header names the column of '\w+' [23] times, and this row has '"):
        plan.item(["1", one, other])
    assert plan.item(["1", one, f" {one}"]) == plan.item(["1", "", one])


def test_a_column_without_a_name_is_left_out() -> None:
    """Row numbers that a table program wrote do no harm."""
    plan = plan_columns("tickets.csv", ["", " _id ", "x"])

    assert Item(item_id="1", attributes={"x": 2}) == plan.item(["0", "1", "2"])


def test_a_short_row_lacks_its_last_columns() -> None:
    """Missing cells are empty ones."""
    assert Item(item_id="1") == item_of("_id title x", "1")


def test_a_row_with_too_many_fields_is_refused() -> None:
    """The reason gives both numbers."""
    with pytest.raises(InvalidItemError, match="3 fields, but the header has 2"):
        item_of("_id title", "1", "a", "b")


def test_a_row_without_an_id_is_refused() -> None:
    """The id is the one cell that must be filled."""
    with pytest.raises(InvalidItemError, match="_id"):
        item_of("_id title", "", "a")


@pytest.mark.parametrize(
    ("header", "columns", "message"),
    [
        ("ticket_id title", {"_id": "ticket"}, "no column 'ticket' .*'ticket_id', 'title'"),
        (
            "Doc-No title",
            {"_id": "doc no"},
            r"no column 'doc no' .*did you mean 'Doc-No'\? There are: 'Doc-No', 'title'",
        ),
        ("ticket_id title", None, "no column 'id'.*'ticket_id', 'title'"),
        ("a b", {"_id": "a", "id": "b"}, "two columns would be the field 'item_id'"),
        ("_id a b", {"attributes.a": "b"}, "two columns would be the attribute 'a'"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(header: str, columns: dict[str, str] | None, message: str) -> None:
    """The error names the file and the columns that exist."""
    with pytest.raises(ConfigurationError, match=r"tickets\.csv: " + message):
        plan_columns("tickets.csv", header.split(), columns)
