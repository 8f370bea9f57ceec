"""An index in parts: each item is in one part, and a search finds and scores the same as with a whole index."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from statistics import mean
from typing import Any

import numpy as np
import psycopg
import pytest
import pytest_asyncio
from psycopg import sql

from retrieval import Collection, EmbeddingSpace, Platform, Settings, connect
from retrieval.adapters.store.search.candidate_request import Query
from retrieval.adapters.store.search.candidates import bound, settings
from retrieval.adapters.store.search.dense_leg import is_of_part
from retrieval.adapters.store.search.indexes import IndexForm, hnsw_indexes
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.hit import Path, SearchResult
from retrieval.services import indexes
from retrieval.services.indexes import IndexOutcome, keep_index
from tests.support.cluster import not_on_a_cluster
from tests.support.corpora import Corpus, clustered, make_corpus
from tests.support.database import SCHEMA
from tests.support.searching import index_names, measure_by_few, walk_request, without_shard

SIZE, DIMENSIONS, ENOUGH = 2_000, 64, 400
"""The size of the corpus, and from how many items on a collection has an index here."""

WORDS = [f"alpha {'beta ' * (place % 3)}gamma{place % 50}" for place in range(SIZE)]


@dataclass(frozen=True)
class Pair:
    """The same items in a collection with a whole index and in one with four parts."""

    whole: Corpus
    divided: Corpus


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "index_rows", lambda _dimensions: ENOUGH)
    measure_by_few(monkeypatch)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(database_url: str) -> AsyncIterator[Pair]:
    """The items of two tenants, with words and vectors."""
    vectors = clustered(np.random.default_rng(4), SIZE, DIMENSIONS, 100)
    own_settings = Settings(tenant="parts-1", database_schema=SCHEMA, embedder="none")
    async with (
        connect(database_url, settings=own_settings) as first,
        connect(database_url, settings=own_settings.changed(tenant="parts-4")) as four,
    ):
        corpora = [await make_corpus(platform, vectors, queries=12, texts=WORDS) for platform in (first, four)]
        # Divided before it is built, each index is built once.
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(indexes, "index_rows", lambda _dimensions: ENOUGH)
            for platform, parts in ((first, 1), (four, 4)):
                info = await platform.split("corpus", parts)
                assert (info.parts, info.index_parts, info.has_hnsw) == (parts, parts, True)
        yield Pair(*corpora)


@pytest.mark.asyncio(loop_scope="module")
async def test_each_item_is_in_one_part_and_the_parts_are_alike_in_size(pair: Pair) -> None:
    """By a hash of its id."""
    stored = await pair.divided.collection.refresh()
    assert stored.space is not None
    column = " + ".join(f"({is_of_part(part, 4)})::integer * 10 ^ {part - 1}" for part in range(1, 5))
    async with pair.divided.platform.database.transaction(pair.divided.platform.tenant_id) as connection:
        cursor = await connection.execute(
            f"SELECT {column} FROM {stored.space.table_name} WHERE collection_id = {stored.collection_id}".encode()  # noqa: S608 - of names and numbers
        )
        places = Counter(int(row[0]) for row in await cursor.fetchall())
    assert set(places) == {1, 10, 100, 1000}
    assert sum(places.values()) == SIZE
    assert min(places.values()) > SIZE / 5


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("where", [None, {"even": True}, {"share": {"lt": 500}}])
async def test_a_walk_is_one_scan_of_each_part_and_sorts_nothing(pair: Pair, where: dict[str, Any] | None) -> None:
    """The nearest of all parts comes next, without a filter, and with filters that facets can test or cannot."""
    request = await walk_request(pair.divided.collection, where)
    platform, names = pair.divided.platform, index_names(await pair.divided.collection.refresh())
    statement = bound(request, Query(vector=pair.divided.queries[0]))
    async with platform.database.transaction(platform.tenant_id) as connection:
        await platform.database.set_locally(connection, settings(request))
        cursor = await connection.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {statement.text}", statement.parameters)
        plan = "\n".join([without_shard(row[0]) async for row in cursor])
    assert len(names) == 4
    for name in names:
        assert plan.count(f"Index Scan using {name} ") == 1
    assert plan.count("Merge Append") == 1


def _as_rows(result: SearchResult) -> list[tuple[str, float, dict[str, float]]]:
    parts = [{name: part[-1] for name, part in _numbers(hit.explanation.contributions)} for hit in result]
    return [(hit.item_id, hit.score, part) for hit, part in zip(result, parts, strict=True)]


def _numbers(contributions: Any) -> list[tuple[str, list[float]]]:
    return [(part[0], [number for number in part[1:] if isinstance(number, int | float)]) for part in contributions]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("legs", [("dense",), ("lexical",), ("dense", "lexical")])
@pytest.mark.parametrize("where", [None, {"even": True}, {"colour": "c3"}, {"share": {"lt": 500}}])
async def test_hits_scores_and_explanations_are_those_of_a_whole_index(
    pair: Pair, legs: tuple[str, ...], where: dict[str, Any] | None
) -> None:
    """This holds for all legs and filters, up to the allowed misses of a walk, one candidate of a hundred.

    A fused score depends a little on the last of the candidates.
    """
    same, total, close = 0, 0, 1e-6 if len(legs) == 1 else 1e-3
    for place, query in enumerate(pair.whole.queries):
        whole, divided = [
            await corpus.collection.search(f"beta gamma{place}", vector=query, legs=legs, where=where, limit=10)
            for corpus in (pair.whole, pair.divided)
        ]
        assert len(whole) == len(divided)
        rows = {item_id: row for item_id, *row in _as_rows(whole)}
        for item_id, score, parts in _as_rows(divided):
            if item_id in rows:
                assert score == pytest.approx(rows[item_id][0], abs=close)
                assert parts == pytest.approx(rows[item_id][1], abs=close)
        same += len({hit.item_id for hit in whole} & {hit.item_id for hit in divided})
        total += len(whole)
    assert total > 0
    assert same >= 0.98 * total


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("limit", [1, 10, 100])
@pytest.mark.parametrize("per_mille", [5, 20, 100, 500, 1000, None])
async def test_the_recall_contract_holds(pair: Pair, per_mille: int | None, limit: int) -> None:
    """Full pages and 99 % of the nearest at every selectivity, near the question or far from it, and unfiltered."""
    corpus = pair.divided
    for field, values, queries in (
        ("share", corpus.shares, corpus.queries),
        ("rank", corpus.ranks, corpus.polar),
    ):
        where = None if per_mille is None else {field: {"lt": per_mille}}
        results = await corpus.found(queries, where, limit)
        assert mean(corpus.recalls(queries, values < (per_mille or 1000), limit, results)) >= 0.99


@pytest.mark.asyncio(loop_scope="module")
async def test_a_search_of_parts_is_replayed(pair: Pair) -> None:
    """Its record has no information about the parts."""
    platform, collection = pair.divided.platform, pair.divided.collection
    result = await collection.search("beta gamma7", vector=pair.divided.queries[0])
    assert result.path is Path.APPROXIMATE
    await platform.recorded()
    assert result.retrieval_id is not None
    assert (await platform.replay(result.retrieval_id)).is_reproduced


@pytest.fixture
async def small(platform: Platform) -> Collection:
    """A collection of 400 items with an undivided index."""
    space = EmbeddingSpace(provider="test", model=f"small {platform.tenant_id}", dimensions=16)
    collection = await platform.collection("docs", space=space)
    vectors = np.random.default_rng(0).normal(size=(ENOUGH, 16))
    await collection.add([{"_id": str(number)} for number in range(ENOUGH)], embeddings=vectors)
    assert (await platform.split("docs", 1)).index_parts == 1
    return collection


async def _names(platform: Platform, collection: Collection) -> list[str]:
    stored = await collection.refresh()
    assert stored.space is not None
    return sorted(await hnsw_indexes(platform.database, stored.space.space_id, stored.collection_id))


async def test_a_split_replaces_the_index_and_is_undone_by_another(platform: Platform, small: Collection) -> None:
    """Nothing of the former index is left; the collection reports the number of parts."""
    for parts in (4, 3, 1):
        info = await platform.split("docs", parts)
        assert (info.parts, info.index_parts) == (parts, parts)
        stored = await small.refresh()
        assert stored.ann_index is not None
        assert stored.ann_index.is_measured
        assert await _names(platform, small) == sorted(index_names(stored))
        assert len(index_names(stored)) == parts
        hits = await small.search(vector=np.ones(16), limit=10, legs=["dense"])
        assert (len(hits), hits.path) == (10, Path.APPROXIMATE)


async def test_a_split_goes_on_with_the_part_that_it_was_at(
    platform: Platform, small: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finished parts stay; until all parts exist, searches walk the former index."""
    before = await _names(platform, small)
    run, built = indexes._run_build, 0  # noqa: SLF001 - it is cut off between two parts

    async def killed(*arguments: Any) -> None:
        nonlocal built
        if built == 2:
            raise ConnectionError("killed")
        built += 1
        await run(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(indexes, "_run_build", killed)
        with pytest.raises(ConnectionError):
            await platform.split("docs", 4)
    info = await small.info()
    assert (info.parts, info.index_parts) == (4, 1)
    half = await _names(platform, small)
    assert len(half) == 3
    assert set(before) < set(half)
    numbers = await _numbers_of(platform, half)
    assert (await small.search(vector=np.ones(16), legs=["dense"])).path is Path.APPROXIMATE

    assert (await platform.split("docs", 4)).index_parts == 4
    after = await _names(platform, small)
    assert len(after) == 4
    finished = set(half) - set(before)
    assert finished < set(after)
    assert {name: number for name, number in numbers.items() if name in finished} == await _numbers_of(
        platform, sorted(finished)
    )


_SPLIT = """
import asyncio, sys
from retrieval import Settings, connect
from retrieval.services import indexes

indexes.index_rows = lambda _dimensions: 400

async def split() -> None:
    settings = Settings(tenant=sys.argv[2], database_schema=sys.argv[3], embedder="none")
    async with connect(sys.argv[1], settings=settings) as platform:
        await platform.split("docs", 4)

asyncio.run(split())
"""


async def test_a_split_whose_process_is_killed_is_finished_by_the_next(
    platform: Platform, small: Collection, settings: Settings
) -> None:
    """Killed at the start of the second part, and again at the last one: searches go on, and nothing is left over."""
    [former] = await _names(platform, small)
    for begun in (2, 4):
        arguments = (platform.database.url, settings.tenant, SCHEMA)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", _SPLIT, *arguments)
        new_names: set[str] = set()
        while process.returncode is None and len(new_names) < begun:
            new_names = {*await _names(platform, small)} - {former}
        if process.returncode is None:
            process.kill()
        await process.wait()
        hits = await small.search(vector=np.ones(16), limit=50, legs=["dense"])
        assert len({hit.item_id for hit in hits}) == 50
    assert (await platform.split("docs", 4)).index_parts == 4
    stored = await small.refresh()
    assert await _names(platform, small) == sorted(index_names(stored))
    assert stored.ann_index is not None
    assert stored.ann_index.is_measured


async def _numbers_of(platform: Platform, names: list[str]) -> dict[str, int]:
    async with platform.database.maintenance() as connection:
        cursor = await connection.execute(
            "SELECT relname, oid::bigint FROM pg_class WHERE relname = ANY (%s)", (names,)
        )
        return dict(await cursor.fetchall())


@not_on_a_cluster("the index that is made invalid here is the nodes' there")
async def test_parts_are_not_searched_before_all_of_them_are_valid(platform: Platform, small: Collection) -> None:
    """A failed part is built again, and the others stay."""
    await platform.split("docs", 4)
    names = await _names(platform, small)
    numbers = await _numbers_of(platform, names)
    async with await psycopg.AsyncConnection.connect(platform.database.url, autocommit=True) as admin:
        statement = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass"
        await admin.execute(statement, (f"{SCHEMA}.{names[1]}",))
    assert (await small.refresh()).ann_index is None
    assert (await small.search(vector=np.ones(16), legs=["dense"])).path is Path.EXACT
    assert await keep_index(platform.database, platform.tenant_id, await small.refresh()) is IndexOutcome.BUILT
    again = await _numbers_of(platform, names)
    assert {name for name in names if numbers[name] != again[name]} == {names[1]}


async def test_searches_and_writes_go_on_while_an_index_is_split(platform: Platform, small: Collection) -> None:
    """Each item is found exactly once at every moment, including added items and excluding deleted ones."""
    chance = np.random.default_rng(1)
    is_done = False

    async def write() -> int:
        number = 0
        while not is_done:
            vector = chance.normal(size=(1, 16))
            await small.add([{"_id": f"new{number}"}], embeddings=vector)
            [first, *_] = await small.search(vector=vector[0], limit=3, legs=["dense"])
            assert first.item_id == f"new{number}"
            if number % 3 == 0:
                await small.delete([f"new{number}"])
                hits = await small.search(vector=vector[0], limit=3, legs=["dense"])
                assert f"new{number}" not in [hit.item_id for hit in hits]
            number += 1
        return number

    async def search() -> int:
        number = 0
        while not is_done:
            hits = await small.search(vector=chance.normal(size=16), limit=50, legs=["dense"])
            assert len({hit.item_id for hit in hits}) == 50
            number += 1
        return number

    async def split() -> None:
        nonlocal is_done
        try:
            for parts in (4, 2, 1, 4):
                assert (await platform.split("docs", parts)).index_parts == parts
        finally:
            is_done = True

    _, written, searched = await asyncio.gather(split(), write(), search())
    assert min(written, searched) > 3


async def test_a_quantised_index_is_divided_too(platform: Platform, small: Collection) -> None:
    """Bits of each part, ranked by their vectors."""
    await platform.collection("docs", index="quantised")
    assert (await platform.split("docs", 3)).index_parts == 3
    stored = await small.refresh()
    assert stored.ann_index is not None
    assert stored.ann_index.form == IndexForm(is_quantised=True, parts=3)
    assert await _names(platform, small) == sorted(index_names(stored))
    assert all("_bits_" in name for name in index_names(stored))
    request = await walk_request(small, effort=400)
    statement = bound(request, Query(vector=np.full(16, 0.25, dtype=np.float32)))
    rows = await platform.database.read(platform.tenant_id, statement, settings(request))
    scores = [row[2] for row in rows if row[0] == "dense"]
    assert len(scores) == 10
    assert scores == sorted(scores, reverse=True)


async def test_a_small_collection_is_divided_once_it_has_an_index(
    platform: Platform, small: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then every vector is compared, and there is nothing to divide."""
    monkeypatch.setattr(indexes, "index_rows", lambda _dimensions: 10_000)
    assert await keep_index(platform.database, platform.tenant_id, await small.refresh()) is IndexOutcome.DROPPED
    info = await platform.split("docs", 5)
    assert (info.parts, info.index_parts, info.has_hnsw) == (5, 0, False)
    assert await _names(platform, small) == []


async def test_a_number_of_parts_that_cannot_be_is_refused(platform: Platform, small: Collection) -> None:
    """Nothing is changed."""
    refused: list[Any] = [0, 65, True, 2.0, "4"]
    for parts in refused:
        with pytest.raises(InvalidRequestError, match=f"parts is {parts!r}; it must be a whole number from 1 to 64"):
            await platform.split("docs", parts)
    assert (await small.info()).parts == 1


async def test_a_collection_without_vectors_has_nothing_to_divide(database_url: str, settings: Settings) -> None:
    """Words have one index whatever the size."""
    async with connect(database_url, settings=settings) as platform:
        await platform.collection("words")
        with pytest.raises(InvalidRequestError, match="has no vectors, and so no index to divide"):
            await platform.split("words", 4)


def test_indexes_and_walks_use_the_same_condition_of_a_part() -> None:
    """Otherwise the planner would not use the index."""
    assert is_of_part(2, 4) == "(hashtextextended(item_id, 0) & 9223372036854775807) % 4 = 1"


async def test_the_names_of_parts_are_distinguished(platform: Platform, small: Collection) -> None:
    """An index whose name only begins the same is not one of them."""
    [name] = await _names(platform, small)
    stored = await small.refresh()
    assert stored.space is not None
    async with platform.database.maintenance() as connection:
        make = sql.SQL("CREATE INDEX {} ON {} (collection_id)")
        table = sql.Identifier(SCHEMA, stored.space.table_name)
        for ending in ("_1_of_2", "_mine", "_2_of_2x"):
            await connection.execute(make.format(sql.Identifier(f"{name}{ending}"), table))
    collection = await small.refresh()
    assert collection.ann_index == stored.ann_index
    assert await _names(platform, small) == [name, f"{name}_1_of_2"]
    assert await keep_index(platform.database, platform.tenant_id, collection) is IndexOutcome.PRESENT
    assert await _names(platform, small) == [name]
