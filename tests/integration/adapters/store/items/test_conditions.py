"""Index look-ups give the same items as the conditions themselves: declared, undeclared, and in Python."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from retrieval import Collection, Item, Platform, Settings, connect
from retrieval.adapters.store.compiled import compiled
from retrieval.adapters.store.items.conditions import condition, matching
from retrieval.adapters.store.tables import items
from retrieval.domain.search.filters import And, Field, Filter, OneOf, Or, parse_where
from tests.support.database import SCHEMA
from tests.support.filtering import matches

LONG = "l" * 299
TEXTS = ["", "a", "b", "B", "ab", "é", "9", "true", LONG, LONG + "x", LONG + "xy", LONG + "xz", "l" * 3000]
NUMBERS = [0, 1, 1.0, -0.5, 9, 10, 2**53, 2**53 + 1, -(2**53) - 1, 10**300, 2**1024 - 1, 5e-324, 1.7976931348623157e308]
INSTANTS = [
    "2024-05-01",
    "2024-05-01T00:00:00",
    "2024-05-01T05:30+05:30",
    "2024-04-30T22:00:00-02",
    "2024-05-01T00:00:00.000001Z",
    "2024-05-01 00:00:00,000001+0000",
    "2024-05-02T12:00Z",
    "0001-01-01",
    "9999-12-31T23:59:59.999999",
]
NO_TIMES = [
    "2024-02-30", "2024-05-01T24:30", "today", "infinity", "2024-05-01T00:00+99", "12:00", "", "2024-5-1", "now()",
    "2024-05-01T00:00:60",
]  # fmt: skip
DECLARED = {"s": "text", "n": "number", "b": "boolean", "t": "time"}
BY_NAME: dict[str, list[Any]] = {"s": TEXTS, "n": NUMBERS, "b": [True, False], "t": INSTANTS}
OTHERS = [None, "no", 7, True, {"a": 1}, [["a"]], [], *NO_TIMES]


def _value(name: str, chance: random.Random) -> Any:
    own = BY_NAME[name]
    kind = chance.random()
    if kind < 0.2:
        return chance.sample(own, min(len(own), chance.randrange(4))) + chance.sample(OTHERS, chance.randrange(2))
    return chance.choice(OTHERS) if kind < 0.35 else chance.choice(own)


def _item(number: int) -> Item:
    chance = random.Random(number)
    return Item(
        item_id=f"{number}",
        title="any words",
        kind=chance.choice(["", "bug", "task"]),
        tags=tuple(chance.sample(["x", "y", "z"], chance.randrange(4))),
        attributes={name: _value(name, chance) for name in BY_NAME if chance.random() < 0.8},
        status=chance.choice(["active", "open"]),
    )


ITEMS = [_item(number) for number in range(150)]


def _leaf(name: str) -> st.SearchStrategy[dict[str, Any]]:
    values = st.sampled_from(BY_NAME[name])
    conditions = [
        values,
        st.lists(values, max_size=3),
        st.builds(lambda value: {"ne": value}, values),
        st.builds(lambda some: {"nin": some}, st.lists(values, max_size=3)),
        st.builds(lambda there: {"exists": there}, st.booleans()),
    ]
    if name != "b":
        operators = st.sampled_from(["gt", "gte", "lt", "lte"])
        conditions.append(st.dictionaries(operators, values, min_size=1, max_size=2))
    return st.builds(lambda value: {name: value}, st.one_of(conditions))


keys = st.lists(st.sampled_from([*(f"{number}" for number in range(0, 150, 3)), "none"]), max_size=100)
leaves = st.one_of(
    *map(_leaf, BY_NAME),
    st.builds(lambda kinds: {"kind": kinds}, st.lists(st.sampled_from(["", "bug", "task"]), max_size=2)),
    st.builds(
        lambda tags, way: {"tags": {way: tags}},
        st.lists(st.sampled_from(["x", "y", "z"]), max_size=2),
        st.sampled_from(["any", "all"]),
    ),
    st.builds(lambda some: {"item_id": some}, keys),
    st.builds(lambda some: {"item_id": {"nin": some}}, keys),
    st.just({"item_id": {"gte": "5"}}),
)
wheres = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"and": parts}, st.lists(inner, max_size=3)),
        st.builds(lambda parts: {"or": parts}, st.lists(inner, max_size=3)),
        st.builds(lambda part: {"not": part}, inner),
    ),
    max_leaves=6,
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(database_url: str) -> AsyncIterator[tuple[Platform, Collection, Collection]]:
    """The items twice: in a collection that declares their attributes, and in one that does not."""
    settings = Settings(tenant="matching", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=settings) as platform:
        declared = await platform.collection("declared", filterable=DECLARED)
        plain = await platform.collection("plain")
        for collection in (declared, plain):
            await collection.add(ITEMS)
        yield platform, declared, plain


async def _matching(platform: Platform, collection: Collection, filter_: Filter) -> list[str]:
    stored = await collection.refresh()
    statement = compiled(matching(stored.collection_id, filter_, stored.filterable))
    return [row[0] for row in await platform.database.read(platform.tenant_id, statement)]


def _holds(element: str) -> Filter:
    return OneOf(Field("list", is_attribute=True), (element,))


async def _by_row(platform: Platform, collection: Collection, filter_: Filter) -> set[str]:
    stored = await collection.refresh()
    statement = sa.select(items.c.item_id).where(
        items.c.collection_id == stored.collection_id, condition(filter_, stored.collection_id, stored.filterable)
    )
    return {row[0] for row in await platform.database.read(platform.tenant_id, compiled(statement))}


@pytest.mark.asyncio(loop_scope="module")
async def test_a_list_of_any_length_is_found_by_each_of_its_elements(
    opened: tuple[Platform, Collection, Collection],
) -> None:
    """Also where it is too long for each element to have a number of its own; an archived item is not found."""
    platform, _, _ = opened
    collection = await platform.collection("lists")
    lengths = [1, 64, 65, 5000]
    long = [
        Item(item_id=f"{length}", attributes={"list": [f"e{number}" for number in range(length)]}) for length in lengths
    ]
    await collection.add(long)
    for element, least in (("e0", 0), ("e63", 64), ("e64", 65), ("e4999", 5000), ("e9999", 10_000)):
        item_ids = await _matching(platform, collection, _holds(element))
        assert sorted(map(int, item_ids)) == [length for length in lengths if length >= least]
    await collection.add([replace(long[-1], status="archived")])
    assert await _matching(platform, collection, _holds("e4999")) == []


@pytest.mark.asyncio(loop_scope="module")
@examples(max_examples=40)
@given(where=wheres)
async def test_declared_and_undeclared_attributes_find_what_the_reference_finds(
    opened: tuple[Platform, Collection, Collection], where: Mapping[str, Any]
) -> None:
    """Each matching item comes once, by index and by row; only times differ."""
    platform, declared, plain = opened
    filter_ = parse_where(where)
    assert filter_ is not None
    for collection in (declared, plain):
        filterable = (await collection.refresh()).filterable
        expected = {item.item_id for item in ITEMS if matches(item, filter_, filterable)}
        item_ids = await _matching(platform, collection, filter_)
        assert set(item_ids) == expected
        assert len(item_ids) == len(expected)
        assert await _by_row(platform, collection, filter_) == expected


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("operator", ["eq", "gt", "gte", "lt", "lte"])
async def test_every_value_is_distinguished_from_its_neighbours(
    opened: tuple[Platform, Collection, Collection], name: str, operator: str
) -> None:
    """This covers long texts, numbers beyond a double's precision, and times in other zones."""
    if name == "b" and operator != "eq":
        return
    platform, declared, _ = opened
    filterable = (await declared.refresh()).filterable
    for value in BY_NAME[name]:
        filter_ = parse_where({name: {operator: value}})
        assert filter_ is not None
        expected = {item.item_id for item in ITEMS if matches(item, filter_, filterable)}
        assert set(await _matching(platform, declared, filter_)) == expected, value


@pytest.mark.asyncio(loop_scope="module")
async def test_a_search_compares_declared_times_as_instants(opened: tuple[Platform, Collection, Collection]) -> None:
    """The same moment in another zone matches, and a text that is not a time never does."""
    _, declared, plain = opened
    where = {"t": {"gte": "2024-05-01T02:00+02:00", "lte": "2024-04-30T20:00-04:00"}}
    filter_ = parse_where(where)
    assert filter_ is not None
    filterable = (await declared.refresh()).filterable
    expected = {item.item_id for item in ITEMS if matches(item, filter_, filterable)}
    assert len({ITEMS[int(key)].attributes["t"] for key in expected}) > 2
    assert {hit.item_id for hit in await declared.search("words", where=where, limit=200)} == expected
    assert {hit.item_id for hit in await plain.search("words", where=where, limit=200)} != expected


@pytest.mark.asyncio(loop_scope="module")
async def test_thousands_of_ids_are_included_or_excluded(opened: tuple[Platform, Collection, Collection]) -> None:
    """A list of ids is a filter like any other, alone or in a combination."""
    _, declared, _ = opened
    many = [*(f"none{number}" for number in range(5000)), *(f"{number}" for number in range(100))]
    for where in (
        {"item_id": many},
        {"item_id": {"nin": many}},
        {"item_id": {"nin": many}, "tags": "x"},
        {"item_id": many, "n": {"gte": 1}},
    ):
        filter_ = parse_where(where)
        assert filter_ is not None
        expected = {item.item_id for item in ITEMS if matches(item, filter_)}
        assert expected
        assert {hit.item_id for hit in await declared.search("words", where=where, limit=200)} == expected


KIND, SOURCE, STATUS = (Field(name, is_attribute=False) for name in ("kind", "source", "status"))


async def test_a_filter_object_that_stands_at_two_places_spoils_no_other_filter(platform: Platform) -> None:
    """The first filter uses one object twice; the next filter of the same shape still finds its own matches."""
    collection = await platform.collection("docs")
    rows = [("A", "x", "u"), ("B", "x", "u"), ("A", "s1", "t1"), ("B", "s1", "t1")]
    await collection.add(
        [{"_id": str(n), "text": "disk", "kind": k, "source": s, "status": t} for n, (k, s, t) in enumerate(rows)]
    )
    twice = OneOf(KIND, ("none",))
    first = And((Or((twice, OneOf(SOURCE, ("s1",)))), Or((twice, OneOf(STATUS, ("t1",))))))
    second = And(
        (Or((OneOf(KIND, ("A",)), OneOf(SOURCE, ("none",)))), Or((OneOf(KIND, ("B",)), OneOf(STATUS, ("u",)))))
    )
    assert {hit.item_id for hit in await collection.search("disk", where=first)} == {"2", "3"}
    assert {hit.item_id for hit in await collection.search("disk", where=second)} == {"0"}
