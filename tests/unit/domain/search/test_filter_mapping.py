"""A filter goes to its mapping and comes back the same."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.search.filters import (
    JSON_TYPES,
    LINKS,
    AllTags,
    And,
    Compare,
    Contains,
    Exists,
    Field,
    Filter,
    HasType,
    Not,
    OneOf,
    Or,
    as_mapping,
    is_value,
    parse_where,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
TIMES = st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29)).map(  # noqa: DTZ001
    lambda time: time.replace(tzinfo=timezone(timedelta(hours=2)), fold=0)
)
ATTRIBUTES = st.builds(
    Field,
    TEXTS.filter(bool) | st.sampled_from(["kind", "and", "not", "tags", "links", "attributes.x", "attributes.", "/x"]),
    st.just(True),  # noqa: FBT003
    st.lists(TEXTS | st.sampled_from(["0", "-1", "a/b", "~1"]), max_size=2).map(tuple),
)
JSON = st.recursive(
    TEXTS | NUMBERS | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
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
    | st.builds(is_value, ATTRIBUTES, JSON)
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
    found = parse_where(json.loads(json.dumps(as_mapping(condition))))
    assert (found, repr(found)) == (condition, repr(condition))


def test_times_are_iso_texts() -> None:
    """With their offset."""
    condition = Compare(Field("occurred_at", is_attribute=False), "gte", datetime(2024, 5, 1, tzinfo=UTC))
    assert as_mapping(condition) == {"occurred_at": {"gte": "2024-05-01T00:00:00+00:00"}}


def test_words_in_the_text_have_no_mapping() -> None:
    """They are not part of the filter language that people write."""
    with pytest.raises(ValueError, match="has no mapping"):
        as_mapping(Not(Contains("broken pipe")))
