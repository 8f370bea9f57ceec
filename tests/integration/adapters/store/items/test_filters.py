"""The filter language in the database means what it means in Python: a reference evaluator decides."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa
from hypothesis import given, reject
from hypothesis import settings as examples
from hypothesis import strategies as st

from retrieval import Collection, Item, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.compiled import compiled
from retrieval.adapters.store.items.conditions import condition
from retrieval.adapters.store.tables import items
from retrieval.collection import handle_of
from retrieval.domain.errors import IncomparableValueError
from retrieval.domain.search.filters import Filter, parse_where
from retrieval.engine.collection_search import leg_rankings
from tests.support.database import SCHEMA
from tests.support.filtering import matches

TIMES = [datetime(2024, 1, day, 12, tzinfo=UTC) for day in range(1, 6)]
SCALARS: list[Any] = [
    0,
    1,
    9,
    10,
    1.0,
    1.5,
    -3,
    True,
    False,
    "",
    "9",
    "10",
    "1",
    "true",
    "a",
    "b",
    "ab",
    "a'b",
    "%",
    "é",
]
NAMES = ["n", "s", "mixed", "list", "odd 'name\"%"]
DEEP: list[Any] = [
    {"a": {"b": 1, "c/d": "x"}},
    {"a": {"b": "1"}},
    {"a": {"b": [1, 2]}},
    {"a": {"b": [2, 1], "c/d": None}},
    {"a": {"b": True}},
    {"a": {"b": None}},
    {"a": {"b": {"0": 1.0}}},
    {"a": [{"b": 9}, {"b": 10}]},
    [9, 10, "9"],
    [],
    {},
    "a",
]
POINTERS = ["/deep", "/deep/a", "/deep/a/b", "/deep/a/b/0", "/deep/a/c~1d", "/deep/a/1/b", "/deep/0", "/deep/-1", "/n"]
TAGS = ["x", "y", "z", "x y", "%"]


def _item(number: int, chance: random.Random) -> Item:
    attributes: dict[str, Any] = {}
    for name in NAMES:
        if chance.random() < 0.7:
            attributes[name] = chance.choice(SCALARS)
            if chance.random() < 0.25:
                attributes[name] = chance.sample(SCALARS, chance.randrange(4))
            elif chance.random() < 0.1:
                attributes[name] = chance.choice([None, {"a": 1}, [["a"]], []])
    if chance.random() < 0.8:
        attributes["deep"] = chance.choice(DEEP)
    return Item(
        item_id=f"{number}",
        title="any words",
        kind=chance.choice(["", "bug", "task"]),
        status=chance.choice(["active", "open", "closed"]),
        source=chance.choice(["", "mail", "a'b"]),
        tags=tuple(chance.sample(TAGS, chance.randrange(4))),
        attributes=attributes,
        occurred_at=chance.choice([None, *TIMES]),
    )


ITEMS = [_item(number, random.Random(number)) for number in range(80)]


ORDERED = st.sampled_from([0, 1, 1.0, 1.5, 9, 10, -3, "", "9", "10", "a", "b", "ab"])
VALUES = st.sampled_from(SCALARS)
TIME = st.sampled_from([*TIMES, TIMES[2].astimezone(timezone(timedelta(hours=5))), TIMES[1].isoformat(), "2024-01-03"])
OPERATORS = ("gt", "gte", "lt", "lte")

conditions = st.one_of(
    VALUES,
    st.none(),
    st.lists(VALUES, max_size=4),
    st.builds(lambda value: {"eq": value}, VALUES | st.none()),
    st.builds(lambda value: {"ne": value}, VALUES | st.none()),
    st.builds(lambda values: {"in": values}, st.lists(VALUES, max_size=4)),
    st.builds(lambda values: {"nin": values}, st.lists(VALUES, max_size=4)),
    st.builds(lambda there: {"exists": there}, st.booleans()),
    st.dictionaries(st.sampled_from(OPERATORS), ORDERED, min_size=1, max_size=2),
)
exactly = st.one_of(
    st.builds(lambda value: {"is": value}, VALUES | st.none() | st.sampled_from([*DEEP, [1, 2], {"b": 1}, [1.0, 2]])),
    st.builds(lambda kind: {"type": kind}, st.sampled_from(["array", "boolean", "null", "number", "object", "string"])),
)
texts = st.sampled_from(["", "bug", "task", "open", "mail", "a'b"])
leaves = st.one_of(
    st.builds(lambda name, value: {name: value}, st.sampled_from([*NAMES, *POINTERS]), exactly),
    st.builds(lambda name, value: {name: value}, st.sampled_from(POINTERS), conditions),
    st.builds(lambda name, value: {name: value}, st.sampled_from(NAMES), conditions),
    st.builds(
        lambda name, value: {name: value},
        st.sampled_from(["kind", "status", "source"]),
        st.one_of(
            texts, st.lists(texts, max_size=3), st.builds(lambda value: {"ne": value}, texts), st.just({"exists": True})
        ),
    ),
    st.builds(lambda tags: {"tags": tags}, st.lists(st.sampled_from(TAGS), max_size=3)),
    st.builds(lambda tags: {"tags": {"all": tags}}, st.lists(st.sampled_from(TAGS), max_size=3)),
    st.builds(lambda tag: {"tags": {"ne": tag}}, st.sampled_from(TAGS)),
    st.builds(lambda there: {"tags": {"exists": there}}, st.booleans()),
    st.builds(lambda name, time: {"occurred_at": {name: time}}, st.sampled_from((*OPERATORS, "eq", "ne")), TIME),
    st.builds(lambda there: {"occurred_at": {"exists": there}}, st.booleans()),
)
wheres = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"and": parts}, st.lists(inner, max_size=3)),
        st.builds(lambda parts: {"or": parts}, st.lists(inner, max_size=3)),
        st.builds(lambda part: {"not": part}, inner),
        st.builds(lambda first, second: {**first, **second}, inner, inner),
    ),
    max_leaves=6,
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(database_url: str) -> AsyncIterator[tuple[Platform, Collection]]:
    """A collection of the items."""
    settings = Settings(tenant="filters", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=settings, embedder=HashingEmbedder(16)) as platform:
        collection = await platform.collection("docs")
        await collection.add(ITEMS)
        await collection.refresh()
        yield platform, collection


async def _matching_ids(platform: Platform, collection: Collection, filter_: Filter) -> set[str]:
    number = (await collection.refresh()).collection_id
    statement = sa.select(items.c.item_id).where(
        items.c.collection_id == sa.literal_column(str(number)), condition(filter_, number)
    )
    return {row[0] for row in await platform.database.read(platform.tenant_id, compiled(statement))}


@pytest.mark.asyncio(loop_scope="module")
@examples(max_examples=150)
@given(where=wheres)
async def test_a_filter_finds_what_the_reference_finds(
    opened: tuple[Platform, Collection], where: Mapping[str, Any]
) -> None:
    """Equality and order by type, lists, absence, tags, times, and every way of putting them together."""
    filter_ = parse_where(where)
    assert filter_ is not None
    assert await _matching_ids(*opened, filter_) == {item.item_id for item in ITEMS if matches(item, filter_)}


@pytest.mark.asyncio(loop_scope="module")
@examples(max_examples=40)
@given(where=wheres)
async def test_every_leg_searches_among_the_matching_items_and_all_of_them(
    opened: tuple[Platform, Collection], where: Mapping[str, Any]
) -> None:
    """Both legs return exactly the items that match, when there is room."""
    filter_ = parse_where(where)
    assert filter_ is not None
    expected = {item.item_id for item in ITEMS if matches(item, filter_)}
    try:
        rankings = await leg_rankings(handle_of(opened[1]), "any words", where=where, depth=1000)
    except IncomparableValueError:
        # No item has a value of "deep" that is ordered; other parts of the filter may match items.
        reject()
    assert {leg: {row.item_id for row in rows} for leg, rows in rankings.items()} == {
        "dense": expected,
        "lexical": expected,
    }


@pytest.mark.asyncio(loop_scope="module")
async def test_numbers_are_ordered_as_numbers_and_never_equal_texts(opened: tuple[Platform, Collection]) -> None:
    """9 < 10, "9" > "10", and neither has to do with the other; true is no 1."""
    for where in ({"n": {"lt": 10}}, {"n": {"gt": "10"}}, {"n": 1}, {"n": True}, {"n": "1"}, {"n": [1, "1"]}):
        filter_ = parse_where(where)
        assert filter_ is not None
        expected = {item.item_id for item in ITEMS if matches(item, filter_)}
        assert expected, "no item to find: the test would prove nothing"
        assert await _matching_ids(*opened, filter_) == expected
        hits = await opened[1].search("any words", where=where, limit=100)
        assert {hit.item_id for hit in hits} == expected


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ["item_id", "s", "tags", "kind"])
async def test_a_list_of_thousands_is_one_condition(opened: tuple[Platform, Collection], name: str) -> None:
    """Ten thousand values in a filter are not an error, and match the same items as the few values that exist."""
    values = [*(f"none{number}" for number in range(9_996)), "a", "x", "bug", "7"]
    filter_ = parse_where({name: values})
    assert filter_ is not None
    hits = await opened[1].search("any words", where={name: values}, limit=100)
    assert {hit.item_id for hit in hits} == {item.item_id for item in ITEMS if matches(item, filter_)}
    assert hits


@pytest.mark.asyncio(loop_scope="module")
async def test_when_an_item_was_stored_can_be_filtered_by(opened: tuple[Platform, Collection]) -> None:
    """``created_at`` is the database's own time."""
    now = datetime.now(UTC)
    for where, expected in (
        ({"created_at": {"gt": now - timedelta(hours=1)}}, len(ITEMS)),
        ({"created_at": {"gt": now + timedelta(hours=1)}}, 0),
    ):
        filter_ = parse_where(where)
        assert filter_ is not None
        assert len(await _matching_ids(*opened, filter_)) == expected
