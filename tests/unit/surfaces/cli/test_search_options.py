"""Conditions as people type them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from retrieval.domain.errors import InvalidFilterError, RetrievalError
from retrieval.domain.search.filters import parse_where
from retrieval.surfaces.cli.app import app
from retrieval.surfaces.cli.options import condition_of, where_of


@pytest.mark.parametrize(
    ("typed", "means"),
    [
        ("priority=High", {"priority": "High"}),
        ("priority==High", {"priority": "High"}),
        (" priority = Very High ", {"priority": "Very High"}),
        ("priority!=Low", {"priority": {"nin": ["Low"]}}),
        ("hours>24", {"hours": {"gt": 24}}),
        ("hours>=24", {"hours": {"gte": 24}}),
        ("hours<1.5", {"hours": {"lt": 1.5}}),
        ("hours<=-2e3", {"hours": {"lte": -2000.0}}),
        ("created>=2024-05-01", {"created": {"gte": "2024-05-01"}}),
        ("tags=a", {"tags": "a"}),
        ("note=a=b>c", {"note": "a=b>c"}),
        ("note=", {"note": ""}),
        ("attributes.kind=x", {"attributes.kind": "x"}),
        ("naïve=é", {"naïve": "é"}),
    ],
)
def test_a_condition_is_read(typed: str, means: dict[str, Any]) -> None:
    """Field, operator and value, as the mapping that filters understand."""
    assert condition_of(typed) == means
    parse_where(means)


@pytest.mark.parametrize(
    ("value", "typed"), [("26", 26), ("0", 0), ("-1.5", -1.5), ("1e3", 1000.0), ("true", True), ("false", False)]
)
def test_equality_finds_a_number_or_boolean_and_the_same_text(value: str, typed: Any) -> None:
    """A JSON value may be stored as that value or as a text: both are found, and both are excluded."""
    assert condition_of(f"x={value}") == {"x": {"in": [typed, value]}}
    assert condition_of(f"x!={value}") == {"x": {"nin": [typed, value]}}


@pytest.mark.parametrize(
    "value", ["007", "1.", ".5", "+1", "NaN", "Infinity", "1e999", "1_000", "True", "null", "9" * 400]
)
def test_values_that_json_does_not_read_as_numbers_or_booleans_are_texts(value: str) -> None:
    """Version numbers, keys with leading zeros and the like are compared as they are written."""
    assert condition_of(f"x={value}") == {"x": value}
    assert condition_of(f"x>{value}") == {"x": {"gt": value}}


@pytest.mark.parametrize("typed", ["x>>3", "x=>3", "x=<3", "x===3", "x<>3"])
def test_a_mistyped_operator_is_refused(typed: str) -> None:
    """It would be a part of the value, which no item has."""
    with pytest.raises(InvalidFilterError, match="cannot read the condition"):
        condition_of(typed)


@pytest.mark.parametrize("field", ["item_id", "kind", "status", "source", "tags"])
def test_the_fields_of_every_item_are_texts(field: str) -> None:
    """A number is never one of their values."""
    assert condition_of(f"{field}=26") == {field: "26"}


def test_times_of_items_are_compared_as_times() -> None:
    """The text goes through as it is, for the filters to read the time."""
    assert condition_of("occurred_at>=2024-05-01") == {"occurred_at": {"gte": "2024-05-01"}}


def test_fields_of_verdicts_are_compared_as_numbers() -> None:
    """No text is one of their values, nor equal to one."""
    assert condition_of("verdict_rating>=0.3") == {"verdict_rating": {"gte": 0.3}}
    assert condition_of("verdict_count=5") == {"verdict_count": 5}


def test_a_json_object_is_the_mapping_itself() -> None:
    """Every filter can be given."""
    assert condition_of(' {"priority": ["High", "Low"]}') == {"priority": ["High", "Low"]}
    assert condition_of('{"resolved": {"exists": false}}') == {"resolved": {"exists": False}}


def test_several_conditions_hold_together() -> None:
    """Also two on one field."""
    assert where_of(["a=x", "hours>1", "hours<5"]) == {"and": [{"a": "x"}, {"hours": {"gt": 1}}, {"hours": {"lt": 5}}]}
    assert where_of(["a=x"]) == {"a": "x"}


def test_no_condition_filters_nothing() -> None:
    """None is the search's value for no filter."""
    assert where_of([]) is None


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("priority", "write FIELD=VALUE"),
        ("", "write FIELD=VALUE"),
        ("=High", "write FIELD=VALUE"),
        ("  >= 3", "write FIELD=VALUE"),
        ("key~High", "write FIELD=VALUE"),
        ('{"priority"', "not JSON"),
        ('{"a": 1} x', "not JSON"),
        ('{"a": {"near": 1}}', "no operator 'near'"),
        ('{"hours": NaN}', "not a JSON number"),
        ('{"hours": ' + "9" * 5000 + "}", "a number of too many digits"),
        ('{"hours": 1, "priority": "High", "hours": 2}', "the member 'hours' occurs twice"),
        ('{"not": ' * 2000 + "{}" + "}" * 2000, "too deep"),
        ('{"\\ud800": 1}', "surrogate"),
        ("a\x00=1", "NUL"),
        ("a\udcff=1", "surrogate"),
        ("occurred_at>yesterday", "ISO 8601"),
        ("tags>a", "cannot be compared"),
        ("and=x", "takes a list"),
    ],
)
def test_invalid_conditions_are_refused_with_a_reason(typed: str, reason: str) -> None:
    """The message says what to write instead."""
    with pytest.raises(InvalidFilterError, match=reason):
        parse_where(where_of([typed]))


FRAGMENTS = st.sampled_from(
    ["=", "!=", ">", "<=", "{", "}", '"', "\\u", "[", "tags", "occurred_at", "and", "1e5", "true"]
)


@given(st.lists(st.lists(st.text() | FRAGMENTS).map("".join), max_size=3))
def test_any_text_is_a_filter_or_is_refused(conditions: list[str]) -> None:
    """Nothing that is typed brings the program down."""
    try:
        parse_where(where_of(conditions))
    except InvalidFilterError:
        return


@given(
    st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists), max_size=3)
)
def test_any_json_object_is_a_filter_or_is_refused(value: dict[str, Any]) -> None:
    """The same for whole mappings."""
    try:
        parse_where(where_of([json.dumps(value)]))
    except InvalidFilterError:
        return


NO_DATABASE = {"RETRIEVAL_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["search", "tickets", "x", "--where", '{"a": {"near": 1}}'], "there is no operator 'near'"),
        (["search", "tickets", "x", "--legs", "dens"], "there is no leg 'dens'"),
        (["search", "tickets", "x", "--legs", ","], "--legs names no leg"),
        (["search", "tickets", "--vector", "null.json"], "cannot read --vector 'null.json': it contains null"),
        (["search", "tickets", "x", "--about", "object.json"], "--about 'object.json' holds no vector"),
        (["complete", "tickets", "x", "--where", "bad"], "cannot read the condition 'bad'"),
        (["passages", "tickets", "x", "--where", "bad"], "cannot read the condition 'bad'"),
        (["items", "list", "tickets", "--where", '{"a": {"near": 1}}'], "there is no operator 'near'"),
        (["keys", "create", "x", "--expires", "soon"], "cannot read --expires 'soon'"),
        (["ingest", "tickets", "object.json", "--schema", "null.json"], "cannot read --schema 'null.json'"),
        (["ingest", "x", "object.json", "--filterable", "a:text", "--filterable", "a:number"], "'a' is given twice"),
        (["tickets", "search", "x", "--priority-weight", " = 0.9"], "write NAME=W"),
        (["tickets", "search", "x", "--priority-weight", "High"], "write NAME=W"),
    ],
)
def test_an_option_is_checked_before_the_database_is_opened(
    words: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening may take seconds, and starts the embedded server."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "null.json").write_text("null")
    (tmp_path / "object.json").write_text('{"id": "1"}')
    error = CliRunner().invoke(app, words, env=NO_DATABASE).exception

    assert isinstance(error, RetrievalError)
    assert why in str(error)
