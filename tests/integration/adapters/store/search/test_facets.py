"""Filters that facets answer in the row of the vector find what the items themselves would, whatever became of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from retrieval import Collection, EmbeddingSpace, Item, Platform, Settings, connect
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.items.composed import Share, facet, facet_clauses, facet_share
from retrieval.adapters.store.items.items import hold_items, write_attributes
from retrieval.adapters.store.items.removal import forget_items
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import find_candidates
from retrieval.adapters.store.search.indexes import AnnIndex, keep_common_facets, keep_measured
from retrieval.domain.items.collection import Neighbours
from retrieval.domain.search.filters import Filter, parse_where
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import LegName
from tests.support.database import SCHEMA, until_somebody_waits
from tests.support.filtering import matches

SPACE = EmbeddingSpace(provider="test", model="facets", dimensions=8)
DECLARED = {"s": "text", "n": "number", "b": "boolean", "t": "time"}
TEXTS = ["", "a", "B", "é", 'a "b"', "back\\slash", "\\x41", "new\nline", "true", "1", "l" * 400]
NUMBERS = [0, 1, 1.0, -0.5, 100, 1e2, 2**53, 2**53 + 1, 10**30, 1e-7, 5e-324]
BY_NAME: dict[str, list[Any]] = {"s": TEXTS, "n": NUMBERS, "b": [True, False], "t": ["2024-05-01", "2024-05-01T00:00Z"]}
OTHERS = [None, "no", 7, True, {"a": 1}, [["a"]], []]
MANY = 5000
TALKS = Neighbours(sequence="talk", order="turn")


def _value(name: str, chance: random.Random) -> Any:
    own, kind = BY_NAME[name], chance.random()
    if kind < 0.15:
        more = [f"long{number}" for number in range(chance.choice([0, 62, 70]))] if name == "s" else []
        return chance.sample(own, min(len(own), 3)) + more
    return chance.choice(OTHERS) if kind < 0.3 else chance.choice(own)


def _item(number: int) -> Item:
    chance = random.Random(number)
    return Item(
        item_id=f"{number}",
        kind=chance.choice(["", "bug", "task"]),
        tags=tuple(chance.sample(["x", "y", "z"], chance.randrange(4))),
        attributes={name: _value(name, chance) for name in BY_NAME if chance.random() < 0.8},
        status=chance.choice(["active", "open"]),
    )


ITEMS = [_item(number) for number in range(120)]
VECTORS = np.random.default_rng(1).normal(size=(len(ITEMS), SPACE.dimensions)).astype(np.float32)


def _leaf(name: str) -> st.SearchStrategy[dict[str, Any]]:
    values = st.sampled_from([*BY_NAME[name], *(["long5"] if name == "s" else [])])
    return st.builds(lambda some: {name: some}, st.one_of(values, st.lists(values, min_size=1, max_size=3)))


leaves = st.one_of(
    *map(_leaf, BY_NAME),
    st.builds(lambda some: {"kind": some}, st.lists(st.sampled_from(["", "bug", "task"]), min_size=1, max_size=2)),
    st.builds(lambda some: {"status": some}, st.sampled_from(["active", "open", "archived"])),
    st.builds(
        lambda tags, way: {"tags": {way: tags}},
        st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, max_size=2),
        st.sampled_from(["any", "all"]),
    ),
    st.just({"n": {"gte": 1}}),  # which facets cannot test
)
wheres = st.builds(lambda parts: {"and": parts}, st.lists(leaves, min_size=1, max_size=3))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(database_url: str) -> AsyncIterator[tuple[Platform, list[Collection]]]:
    """The items twice, with vectors: in a collection that declares their attributes, and in one that does not."""
    settings = Settings(tenant="facets", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=settings) as platform:
        collections = [
            await platform.collection("declared", filterable=DECLARED, space=SPACE),
            await platform.collection("plain", space=SPACE),
        ]
        for collection in collections:
            await collection.add(ITEMS, embeddings=VECTORS)
        yield platform, collections


async def _nearest_ids(platform: Platform, collection: Collection, filter_: Filter, **way: Any) -> set[str]:
    """The items that the dense leg brings, the nearest thousand."""
    stored = await collection.refresh()
    assert stored.space is not None
    request = CandidateRequest(
        collection_id=stored.collection_id, legs=(LegName.DENSE,), depth=1000, condition=filter_,
        filterable=stored.filterable, space_id=stored.space.space_id, dimensions=SPACE.dimensions, **way,
    )  # fmt: skip
    query = Query(vector=VECTORS[0] / np.linalg.norm(VECTORS[0]))
    candidates = (await find_candidates(platform.database, platform.tenant_id, request, query)).rankings["dense"]
    assert [candidate.score for candidate in candidates] == sorted(
        (candidate.score for candidate in candidates), reverse=True
    )
    assert len({candidate.item_id for candidate in candidates}) == len(candidates)
    return {candidate.item_id for candidate in candidates}


WAYS: list[dict[str, Any]] = [
    {"path": Path.EXACT},
    {"path": Path.APPROXIMATE, "few": MANY, "reach": MANY},
    {"path": Path.APPROXIMATE, "few": -1, "reach": MANY, "effort": 1000},
]
"""Every match compared; counted first; a walk of all rows, of which the matching ones are kept."""


@pytest.mark.asyncio(loop_scope="module")
@examples(max_examples=30)
@given(where=wheres)
async def test_each_way_finds_what_the_reference_finds(
    opened: tuple[Platform, list[Collection]], where: Mapping[str, Any]
) -> None:
    """Attributes of any kind, declared or not, lists of any length, tags, kind and status, all of them together."""
    platform, collections = opened
    condition = parse_where(where)
    assert condition is not None
    for collection in collections:
        filterable = (await collection.refresh()).filterable
        expected = {item.item_id for item in ITEMS if matches(item, condition, filterable)}
        for way in WAYS:
            assert await _nearest_ids(platform, collection, condition, **way) == expected, way
        assert {stored.item.item_id for stored in await collection.page(condition, limit=1000)} == expected


@pytest.mark.parametrize(
    ("where", "clauses"),
    [
        ({"s": "a", "tags": {"all": ["x", "y"]}, "kind": ["bug", "task"], "status": "open"}, 5),
        ({"or": [{"s": "a"}]}, 1),
        ({"s": ["a"] * 100}, 1),
        ({"s": [str(number) for number in range(101)]}, None),
        ({"s": []}, None),
        ({"s": {"ne": "a"}}, None),
        ({"s": "a", "n": {"gte": 1}}, None),
        ({"or": [{"s": "a"}, {"kind": "bug"}]}, None),
        ({"/s/0": "a"}, None),
        ({"source": "mail"}, None),
        ({"item_id": "1"}, None),
    ],
)
def test_facets_answer_conjunctions_of_few_values(where: dict[str, Any], clauses: int | None) -> None:
    """Every other filter takes the general way."""
    condition = parse_where(where)
    assert condition is not None
    facets = facet_clauses(condition)
    assert (None if facets is None else len(facets)) == clauses


@pytest.mark.asyncio(loop_scope="module")
@examples(max_examples=200)
@given(value=st.one_of(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), st.booleans(),
                       st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
       field=st.sampled_from([".a", "tags", '.a "b" \\']))  # fmt: skip
async def test_a_facet_is_the_same_in_python(
    opened: tuple[Platform, list[Collection]], value: str | float, field: str
) -> None:
    """Python computes the facets that plan a walk; 0 and -0 are one number."""
    statement = Compiled(
        "SELECT facet(7, %(field)s::text, %(value)s::jsonb)::text",
        {"field": field, "value": psycopg.types.json.Jsonb(value)},
    )
    platform, _ = opened
    rows = await platform.database.read(platform.tenant_id, statement)
    assert rows[0][0] == facet(7, field, value)


async def _stale(platform: Platform, collection: Collection) -> list[str]:
    """The items whose vector has missing facets, or other facets than the item."""
    stored = await collection.refresh()
    assert stored.space is not None
    text = (
        "SELECT item.item_id FROM items AS item "  # noqa: S608 - the table's own name
        f"FULL JOIN (SELECT * FROM {stored.space.table_name} WHERE collection_id = %(id)s) AS known USING (item_id) "
        "WHERE item.collection_id = %(id)s AND CASE WHEN item.status = 'archived' THEN known.item_id IS NOT NULL "
        "ELSE known.facets IS DISTINCT FROM item.facets END"
    )
    rows = await platform.database.read(platform.tenant_id, Compiled(text, {"id": stored.collection_id}))
    return [row[0] for row in rows]


async def _dense(collection: Collection, **where: Any) -> set[str]:
    hits = await collection.search(vector=VECTORS[0], where=where, limit=100, legs=["dense"])
    return {hit.item_id for hit in hits}


async def test_facets_follow_what_becomes_of_an_item(platform: Platform) -> None:
    """Attributes, tags or status change and the vector stays; an item is archived and comes back; another text."""
    collection = await platform.collection("docs", space=SPACE)
    some = [Item(item_id=f"{n}", body=f"text {n}", attributes={"colour": "red"}) for n in range(10)]
    await collection.add(some, embeddings=VECTORS[:10])
    assert await _dense(collection, colour="red") == {f"{n}" for n in range(10)}

    await collection.add([replace(some[0], attributes={"colour": ["blue", "green"]})], embeddings=VECTORS[:1])
    await collection.change(["1"], lambda _, item: item and item.changed(attributes={"colour": "blue"}))
    await collection.change(["2"], lambda _, item: item and item.changed(tags=("x",), status="open"))
    assert await _dense(collection, colour="blue") == {"0", "1"}
    assert await _dense(collection, colour=["green", "none"]) == {"0"}
    assert await _dense(collection, colour="red", tags="x", status="open") == {"2"}
    assert await _stale(platform, collection) == []

    grey = {"colour": "grey"}
    await collection.change(["3"], lambda _, item: item and item.changed(attributes=grey), keeps_time=True)
    assert await _dense(collection, colour="grey") == {"3"}

    await collection.add([replace(some[4], status="archived")])
    assert "4" not in await _dense(collection, colour="red")
    await collection.add([some[4]], embeddings=VECTORS[4:5])
    assert "4" in await _dense(collection, colour="red")
    await collection.add([Item(item_id="5", body="other", attributes={"colour": "pink"})], embeddings=VECTORS[20:21])
    assert await _dense(collection, colour="pink") == {"5"}
    assert await _stale(platform, collection) == []


async def test_a_writer_of_a_windows_facets_waits_for_the_mixing_of_its_vectors(platform: Platform) -> None:
    """The mixer would write the state that it read earlier; it locks the totals, not the items."""
    collection = await platform.collection("talks", space=SPACE, neighbours=TALKS)
    some = [Item(item_id=f"{n}", body=f"{n}", attributes={"talk": "a", "turn": n, "colour": "red"}) for n in range(4)]
    await collection.add(some, embeddings=VECTORS[:4])
    changed = [replace(item, attributes={**item.attributes, "colour": "blue"}) for item in some]
    await collection.add(changed[:1], embeddings=VECTORS[:1])
    assert await _dense(collection, colour="blue") == {"0"}
    number = (await collection.refresh()).collection_id

    async def annotate() -> None:
        async with platform.database.transaction(platform.tenant_id) as connection:
            await hold_items(connection, number, ["1"])
            await write_attributes(connection, number, changed[1:2])

    async with platform.database.transaction(platform.tenant_id) as mixer:
        await mixer.execute("SELECT hold_totals(%s)", (number,))
        writing = asyncio.create_task(annotate())
        await until_somebody_waits(platform)
    await writing
    assert await _dense(collection, colour="blue") == {"0", "1"}
    assert await _stale(platform, collection) == []


@pytest.mark.parametrize("neighbours", [None, TALKS])
async def test_facets_are_right_after_many_writers_at_once(platform: Platform, neighbours: Neighbours | None) -> None:
    """Attributes, texts and vectors of the same items change in any order."""
    collection = await platform.collection("docs", space=SPACE, neighbours=neighbours)
    chance = random.Random(5)

    async def write() -> None:
        for _ in range(8):
            places = sorted(chance.sample(range(12), 4))
            some = [
                Item(
                    item_id=f"{place:02}",
                    body=chance.choice(["one", "two"]),
                    attributes={"talk": "a", "turn": place, "colour": chance.choice("abcd")},
                )
                for place in places
            ]
            vectors = VECTORS[[place + 20 * (item.body == "two") for place, item in zip(places, some, strict=True)]]
            await collection.add(some, embeddings=vectors)

    await asyncio.gather(*(write() for _ in range(4)))
    assert await _stale(platform, collection) == []


async def test_common_facets_are_known_until_one_of_them_is_forgotten(platform: Platform) -> None:
    """Facets of at least a twentieth of the items are stored with their share, until an item with one is forgotten."""
    collection = await platform.collection("docs", space=SPACE)
    some = [Item(item_id=f"{n}", body="text", attributes={"colour": "red" if n < 50 else f"{n}"}) for n in range(100)]
    await collection.add(some, embeddings=VECTORS[:100])
    stored = await collection.refresh()
    assert stored.space is not None
    where = CollectionPlace(platform.database, platform.tenant_id, stored.collection_id)
    async with platform.database.transaction(platform.tenant_id) as connection:
        await keep_measured(connection, stored.collection_id, stored.space.space_id, AnnIndex(rows=100))
    await keep_common_facets(where, stored.space.space_id)
    red = facet(stored.collection_id, ".colour", "red")
    active = facet(stored.collection_id, "status", "active")

    async def common() -> dict[str, float]:
        statement = Compiled("SELECT common_facets FROM ann_indexes WHERE collection_id = %(id)s")
        rows = await platform.database.read(platform.tenant_id, statement.bind(id=stored.collection_id))
        shares: dict[str, float] = rows[0][0]
        return shares

    assert await common() == {red: 0.5, active: 1.0, facet(stored.collection_id, "kind", ""): 1.0}
    await forget_items(where, {"0": "pseudonym"})
    assert await common() == {}
    await keep_common_facets(where, stored.space.space_id)
    assert (await common())[red] == pytest.approx(49 / 99, abs=0.001)


async def test_the_share_of_a_filter_has_all_common_facets(platform: Platform) -> None:
    """Items may have any number of common facets, from long lists too."""
    collection = await platform.collection("docs", space=SPACE)
    many, long = [f"t{number}" for number in range(60)], [f"l{number}" for number in range(65)]
    some = [Item(item_id=f"{n}", tags=tuple(many), attributes={"a": long if n < 40 else [f"{n}"]}) for n in range(100)]
    await collection.add(some, embeddings=VECTORS[:100])
    stored = await collection.refresh()
    assert stored.space is not None
    async with platform.database.transaction(platform.tenant_id) as connection:
        await keep_measured(connection, stored.collection_id, stored.space.space_id, AnnIndex(rows=100))
    await keep_common_facets(
        CollectionPlace(platform.database, platform.tenant_id, stored.collection_id), stored.space.space_id
    )
    statement = Compiled("SELECT common_facets FROM ann_indexes WHERE collection_id = %(id)s")
    rows = await platform.database.read(platform.tenant_id, statement.bind(id=stored.collection_id))
    for where, share in (
        *(({"tags": tag}, Share(1.0, 1.0)) for tag in many),
        ({"tags": "other"}, Share(0.0, 0.05)),
        ({"a": "l3"}, Share(0.4, 0.4)),
        ({"a": "l3", "tags": "t1"}, Share(0.4, 0.4)),
    ):
        condition = parse_where(where)
        assert condition is not None
        found = facet_share(condition, (), stored.collection_id, rows[0][0])
        assert found is not None
        assert tuple(found) == pytest.approx(tuple(share)), where
