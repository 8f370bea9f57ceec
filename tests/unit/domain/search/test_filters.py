"""The filter language: valid mappings, and the messages for invalid ones."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.errors import InvalidFilterError
from retrieval.domain.search.filters import (
    JSON_TYPES,
    LINKS,
    MAX_CONDITIONS,
    AllTags,
    And,
    Compare,
    Contains,
    Exists,
    Field,
    Filter,
    HasType,
    Is,
    Not,
    OneOf,
    Or,
    as_mapping,
    attribute_names,
    is_value,
    parse_field,
    parse_where,
)

PRIORITY = Field("priority", is_attribute=True)
KIND = Field("kind", is_attribute=False)
TAGS = Field("tags", is_attribute=False)
OCCURRED = Field("occurred_at", is_attribute=False)


@pytest.mark.parametrize(
    ("where", "filter_"),
    [
        (None, None),
        ({}, None),
        ({"priority": "High"}, OneOf(PRIORITY, ("High",))),
        ({"priority": ["High", "Low"]}, OneOf(PRIORITY, ("High", "Low"))),
        ({"priority": {"in": ["High"]}}, OneOf(PRIORITY, ("High",))),
        ({"priority": {"ne": "Low"}}, Not(OneOf(PRIORITY, ("Low",)))),
        ({"priority": {"nin": ["Low"]}}, Not(OneOf(PRIORITY, ("Low",)))),
        ({"priority": None}, Not(Exists(PRIORITY))),
        ({"priority": {"exists": True}}, Exists(PRIORITY)),
        ({"priority": {"exists": False}}, Not(Exists(PRIORITY))),
        ({"priority": {"gte": 1, "lt": 9}}, And((Compare(PRIORITY, "gte", 1), Compare(PRIORITY, "lt", 9)))),
        ({"/address/city": "Bern"}, OneOf(Field("address", True, ("city",)), ("Bern",))),  # noqa: FBT003
        ({"/a~1b/c~0d/-1": None}, Not(Exists(Field("a/b", True, ("c~d", "-1"))))),  # noqa: FBT003
        ({"/kind": "bug"}, OneOf(Field("kind", is_attribute=True), ("bug",))),
        ({"attributes./a": 1}, OneOf(Field("/a", is_attribute=True), (1,))),
        ({"priority": {"is": {"b": [1.0], "a": None}}}, Is(PRIORITY, '{"a": null, "b": [1.0]}')),
        ({"priority": {"type": "object"}}, HasType(PRIORITY, "object")),
        ({"kind": "bug"}, OneOf(KIND, ("bug",))),
        ({"attributes.kind": "bug"}, OneOf(Field("kind", is_attribute=True), ("bug",))),
        ({"tags": "a"}, OneOf(TAGS, ("a",))),
        ({"tags": ["a", "b"]}, OneOf(TAGS, ("a", "b"))),
        ({"tags": {"all": ["a", "b"]}}, AllTags(("a", "b"))),
        ({"verdict_rating": {"gte": 0.3}}, Compare(parse_field("verdict_rating"), "gte", 0.3)),
        ({"verdict_count": [0, 2.0]}, OneOf(parse_field("verdict_count"), (0, 2.0))),
        ({"verdict_count": {"lt": 10**400}}, Compare(parse_field("verdict_count"), "lt", 2**53)),
        ({"attributes.verdict_count": "x"}, OneOf(Field("verdict_count", is_attribute=True), ("x",))),
        ({"links": "questions:q1"}, OneOf(LINKS, ("questions:q1",))),
        ({"links": ["a:1", "b:x:y"]}, OneOf(LINKS, ("a:1", "b:x:y"))),
        ({"links": {"all": ["a:1", "b:2"]}}, And((OneOf(LINKS, ("a:1",)), OneOf(LINKS, ("b:2",))))),
        ({"or": [{"kind": "a"}, {"kind": "b"}]}, Or((OneOf(KIND, ("a",)), OneOf(KIND, ("b",))))),
        ({"not": {"kind": "a"}}, Not(OneOf(KIND, ("a",)))),
        ({"kind": "a", "priority": 1}, And((OneOf(KIND, ("a",)), OneOf(PRIORITY, (1,))))),
    ],
)
def test_every_form_of_the_grammar_is_parsed(where: Any, filter_: Any) -> None:
    """Each form of the grammar, as a value."""
    assert parse_where(where) == filter_


def test_true_and_one_are_two_values() -> None:
    """They differ in JSON, although they are equal in Python."""
    parsed = parse_where({"priority": [1, True, 1.0, True]})
    assert isinstance(parsed, OneOf)
    assert [repr(value) for value in parsed.values] == ["1.0", "True"]


@pytest.mark.parametrize(
    "written", ["2024-05-01T00:00:00Z", "2024-05-01", datetime(2024, 5, 1, tzinfo=UTC), date(2024, 5, 1)]
)
def test_times_are_read_in_any_usual_form(written: Any) -> None:
    """Text, datetime or date; without a zone it is UTC."""
    assert parse_where({"occurred_at": {"lt": written}}) == Compare(OCCURRED, "lt", datetime(2024, 5, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("priority=High", "must be a mapping"),
        ({"": 1}, "non-empty text"),
        ({1: 1}, "non-empty text"),
        ({"a\x00": 1}, "non-empty text"),
        ({"/a/\ud800": 1}, "half of a surrogate pair"),
        ({"kind": 3}, "it is text; it cannot be compared with 3"),
        ({"priority": {}}, "condition is empty"),
        ({"priority": {"$gte": "x"}}, r"no operator '\$gte'; say 'gte'; there are"),
        ({"$and": [{"priority": "x"}]}, r"'\$and': say 'and'"),
        ({"priority": {"like": "x"}}, "no operator 'like'; there are all, any, eq"),
        ({"priority": {"in": "High"}}, "take a list"),
        ({"priority": {"all": ["a"]}}, "'all' is for tags"),
        ({"priority": {"exists": "yes"}}, "takes true or false"),
        ({"priority": {"is": {1: "a"}}}, "no item can have the value"),
        ({"priority": {"is": float("inf")}}, "no item can have the value"),
        ({"kind": {"is": "bug"}}, "'kind': it is not an attribute"),
        ({"priority": {"type": "text"}}, "type takes one of array, boolean"),
        ({"tags": {"type": "array"}}, "'tags': it is not an attribute"),
        ({"priority": {"gt": True}}, "needs a number, a text or a time"),
        ({"priority": {"gt": float("nan")}}, "is not a number"),
        ({"priority": object()}, "not a text, a number"),
        ({"priority": "a\x00"}, "NUL"),
        ({"priority": "\ud800"}, "surrogate"),
        ({"occurred_at": {"lt": "yesterday"}}, "not an ISO 8601 time"),
        ({"occurred_at": {"lt": 5}}, "is a time"),
        ({"tags": {"gt": "a"}}, "cannot be compared by order"),
        ({"verdict_rating": "good"}, "'verdict_rating': it is a number"),
        ({"verdict_rating": {"lt": float("nan")}}, "'verdict_rating': it is a number"),
        ({"verdict_count": True}, "'verdict_count': it is a number"),
        ({"verdict_count": {"gt": 2.5}}, "'verdict_count': it is a whole number"),
        ({"links": {"gt": "a:1"}}, "cannot be compared by order"),
        ({"links": ["a:1", "q1"]}, "'type:id', such as 'questions:q1', not 'q1'"),
        ({"links": ":q1"}, "'type:id'"),
        ({"links": "questions:"}, "'type:id'"),
        ({"links": {"all": [7]}}, "'type:id'"),
        ({"and": {"kind": "a"}}, "takes a list"),
        ({"or": ["kind"]}, "must be a mapping"),
    ],
)
def test_an_invalid_filter_is_refused_with_a_reason(where: Any, message: str) -> None:
    """Each refusal names the field and the valid values."""
    with pytest.raises(InvalidFilterError, match=message):
        parse_where(where)


LONG = "x" * 100_000


@pytest.mark.parametrize(
    "where", [{"occurred_at": LONG}, {LONG: {LONG: 1}}, {"tags": {"all": LONG}}, {"a": {"in": LONG}}, {"not": LONG}]
)
def test_a_reason_is_one_short_line_however_long_the_filter_is(where: Any) -> None:
    """Names and values are cut."""
    with pytest.raises(InvalidFilterError) as caught:
        parse_where(where)
    assert len(str(caught.value)) < 400


def test_nesting_is_bounded() -> None:
    """A filter nested without end is an error, not a crash, nor is one that contains itself."""
    where: dict[str, Any] = {"kind": "a"}
    for _ in range(1000):
        where = {"not": where}
    endless: dict[str, Any] = {}
    endless["and"] = [endless]
    for nested in (where, endless):
        with pytest.raises(InvalidFilterError, match="nested deeper"):
            parse_where(nested)


@pytest.mark.parametrize("levels", [32, 33])
def test_a_filter_has_32_levels(levels: int) -> None:
    """Each level has its list of filters, and the innermost condition its operator."""
    where: dict[str, Any] = {"kind": {"ne": "a"}}
    for _ in range(levels):
        where = {"and": [where]}
    with nullcontext() if levels == 32 else pytest.raises(InvalidFilterError, match="nested deeper"):
        parse_where(where)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["and", "or", "not", "gt", "in"]), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text() | st.sampled_from(["and", "or", "not", "tags", "occurred_at"]), JSON))
def test_any_mapping_is_understood_or_refused(where: dict[str, Any]) -> None:
    """Only our own error is raised, and a parsed filter can be a key of a cache."""
    try:
        parsed = parse_where(where)
    except InvalidFilterError:
        return
    assert hash(parsed) == hash(parse_where(where))


def test_the_attributes_a_filter_speaks_of_are_found_at_any_depth() -> None:
    """Unknown attributes can then be reported."""
    where = {"or": [{"a": 1}, {"not": {"b": {"gt": 2}}}], "kind": "x", "c": {"exists": True}, "tags": ["t"]}
    assert attribute_names(parse_where(where)) == {"a", "b", "c"}
    assert attribute_names(None) == frozenset()


def test_more_conditions_than_a_statement_takes_are_refused_with_the_way_out() -> None:
    """A list is one condition; of tags that must all be there, and of groups, each is one."""
    assert parse_where({"n": list(range(5000))}) is not None
    assert parse_where({"or": [{"n": number} for number in range(MAX_CONDITIONS)]}) is not None
    assert parse_where({"n": {"is": {f"a{number}": number for number in range(5000)}}}) is not None
    many = range(MAX_CONDITIONS + 1)
    refused: tuple[dict[str, Any], ...] = (
        {"or": [{"n": number} for number in many]},
        {f"n{number}": 1 for number in many},
        {"and": [{"n": {"gt": 1, "lt": 5}} for _ in range(MAX_CONDITIONS // 2 + 1)]},
        {"tags": {"all": [f"t{number}" for number in many]}},
        {"links": {"all": [f"t:{number}" for number in many]}},
        {"and": [{} for _ in many]},
        {"and": [{"or": []} for _ in many]},
        # Refused before it is parsed: none of the conditions can be.
        {"and": [{"n": {"nonsense": number}} for number in many]},
    )
    for where in refused:
        with pytest.raises(InvalidFilterError, match=r"more than 100 conditions.*one list"):
            parse_where(where)


@pytest.mark.parametrize(
    "where",
    [
        {"n": list(range(101))},
        {"n": {"in": set(range(101))}},
        {"n": {"nin": [1.5] * 101}},
        {"or": [{"n": list(range(51))}, {"not": {"n": list(range(51))}}]},
        {"n": {"is": list(range(101))}},
        {"n": {"is": [[1] * 60, [1] * 60]}},
        {"n": {"is": {"a": {"b": [1] * 101}}}},
    ],
)
def test_more_values_than_the_bound_are_refused_and_the_bound_is_named(where: dict[str, object]) -> None:
    """All values of a filter count together; without a limit, as for recorded filters, any number is valid."""
    with pytest.raises(InvalidFilterError, match=r"more than 100 values .*RETRIEVAL_MAX_FILTER_VALUES"):
        parse_where(where, most_values=100)
    assert parse_where(where) is not None


def test_a_filter_made_by_hand_has_the_same_bounds() -> None:
    """LangChain's filters and others come as values, not as a mapping."""
    filter_ = OneOf(Field("n", is_attribute=True), tuple(range(60)))
    with pytest.raises(InvalidFilterError, match="more than 100 values"):
        parse_where(And((filter_, Not(filter_))), most_values=100)
    with pytest.raises(InvalidFilterError, match="more than 100 conditions"):
        parse_where(Or((filter_,) * 101))
    with pytest.raises(InvalidFilterError, match="more than 100 conditions"):
        parse_where(And((Or(()),) * 101))


def test_a_mapping_that_is_far_too_large_is_refused_at_a_glance() -> None:
    """Its number of members decides, before any member is read."""

    class Unread(list[object]):
        def __iter__(self) -> NoReturn:
            pytest.fail("a member is read")

    with pytest.raises(InvalidFilterError):
        parse_where({"n": Unread([1] * 10_001)}, most_values=10_000)


def test_values_that_no_item_can_have_are_refused() -> None:
    """As an item with such a value is."""
    with pytest.raises(InvalidFilterError, match="beyond"):
        parse_where({"n": 10**5000})
    with pytest.raises(InvalidFilterError, match="is not a text"):
        parse_where({"n": b"x"})
    huge: Any = 10**5000
    for where in ({"kind": huge}, {"n": {huge: 1}}, {huge: 1}, huge):
        with pytest.raises(InvalidFilterError, match="a number of many digits"):
            parse_where(where)


def test_a_date_is_the_text_that_says_it() -> None:
    """As a time is."""
    assert parse_where({"due": {"gte": date(2024, 5, 1)}}) == Compare(
        Field("due", is_attribute=True), "gte", "2024-05-01"
    )


@pytest.mark.parametrize(
    ("where", "place"),
    [
        ({"priority": {"gte": True}}, ("priority", "gte")),
        ({"a": 1, "b": {"near": 2}}, ("b", "near")),
        ({"or": [{"a": 1}, {"not": {"occurred_at": "soon"}}]}, ("or", 1, "not", "occurred_at")),
        ({"and": [{"a": 1}, 7]}, ("and", 1)),
        ({3: 1}, (3,)),
        ([], ()),
    ],
)
def test_an_error_has_the_path_to_its_place(where: Any, place: tuple[str | int, ...]) -> None:
    """The path of keys and places, for a user interface that shows the error beside the field."""
    with pytest.raises(InvalidFilterError) as caught:
        parse_where(where)
    assert caught.value.location == place


@pytest.mark.parametrize("time", ["0001-01-01T00:00+14:00", "2026-01-01T00:00+17:23"])
def test_a_time_that_no_database_can_compare_is_refused(time: str) -> None:
    """The message names the fault."""
    with pytest.raises(InvalidFilterError, match="UTC"):
        parse_where({"occurred_at": {"gte": time}})


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
TIMES = st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29)).map(  # noqa: DTZ001
    lambda time: time.replace(tzinfo=timezone(timedelta(hours=2)), fold=0)
)
ATTRIBUTES = st.builds(
    Field,
    TEXTS | st.sampled_from(["kind", "and", "$or", "tags", "links", "attributes.x", "attributes.", "/x"]),
    st.just(True),  # noqa: FBT003
    st.lists(TEXTS | st.sampled_from(["0", "-1", "a/b", "~1"]), max_size=2).map(tuple),
)
# No item's value has control or format characters, so filters with them are refused.
STORABLE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp", "Cn", "Co"]), max_size=5)
JSON_MAPPING = st.recursive(
    STORABLE | NUMBERS | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(STORABLE, inner, max_size=2),
    max_leaves=4,
)
WORDS = st.builds(Field, st.sampled_from(["item_id", "kind", "status", "source", "tags"]), st.just(False))  # noqa: FBT003
MOMENTS = st.builds(Field, st.sampled_from(["occurred_at", "created_at"]), st.just(False))  # noqa: FBT003
TYPES = TEXTS.filter(lambda text: bool(text) and ":" not in text)
ORDERS = st.sampled_from(["gt", "gte", "lt", "lte"])


def distinct(values: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    """Several values, none twice, as the parser leaves them."""
    return st.lists(values, max_size=3, unique_by=lambda value: (isinstance(value, bool), value)).map(tuple)


VERDICTS = st.builds(Field, st.sampled_from(["verdict_rating", "verdict_count"]), st.just(False))  # noqa: FBT003
COUNTS = st.integers(0, 2**53)

LEAVES = (
    st.builds(OneOf, ATTRIBUTES, distinct(TEXTS | NUMBERS | st.booleans()))
    | st.builds(OneOf, WORDS, distinct(TEXTS))
    | st.builds(OneOf, MOMENTS, distinct(TIMES))
    | st.builds(OneOf, st.just(LINKS), distinct(st.builds("{}:{}".format, TYPES, TEXTS.filter(bool))))
    | st.builds(Exists, st.just(LINKS))
    | st.builds(AllTags, st.lists(TEXTS, max_size=3).map(tuple))
    | st.builds(Compare, ATTRIBUTES, ORDERS, TEXTS | NUMBERS)
    | st.builds(Compare, MOMENTS, ORDERS, TIMES)
    | st.builds(Compare, VERDICTS, ORDERS, COUNTS)
    | st.builds(OneOf, VERDICTS, distinct(COUNTS))
    | st.builds(is_value, ATTRIBUTES, JSON_MAPPING)
    | st.builds(HasType, ATTRIBUTES, st.sampled_from(JSON_TYPES))
    | st.builds(Exists, ATTRIBUTES | WORDS | MOMENTS)
)
FILTERS: st.SearchStrategy[Filter] = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


@given(FILTERS)
def test_the_mapping_says_the_same_filter(condition: Filter) -> None:
    """Through JSON and the parser it is equal, down to the types of its values."""
    parsed = parse_where(json.loads(json.dumps(as_mapping(condition))))
    assert (parsed, repr(parsed)) == (condition, repr(condition))


def test_times_are_iso_texts() -> None:
    """With their offset."""
    condition = Compare(Field("occurred_at", is_attribute=False), "gte", datetime(2024, 5, 1, tzinfo=UTC))
    assert as_mapping(condition) == {"occurred_at": {"gte": "2024-05-01T00:00:00+00:00"}}


def test_words_in_the_text_have_no_mapping() -> None:
    """They are not part of the filter language that people write."""
    with pytest.raises(ValueError, match="has no mapping"):
        as_mapping(Not(Contains("broken pipe")))
