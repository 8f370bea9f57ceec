"""The quantised index: a walk uses bits, stored vectors rank; the platform notices if bits do not suffice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from statistics import mean
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from retrieval import Collection, EmbeddingSpace, Platform, Settings, connect
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.candidate_request import Query
from retrieval.adapters.store.search.candidates import bound, settings
from retrieval.adapters.store.search.indexes import BEYOND, hnsw_indexes, keep_measured
from retrieval.adapters.store.search.recall import keep_sample
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.embedding import Vectors
from retrieval.domain.search.hit import Path
from retrieval.jobs.recall import measure_recall
from retrieval.services.indexes import IndexOutcome, is_index_off, keep_index, rebuild_index
from tests.support.corpora import Corpus, make_corpus
from tests.support.database import SCHEMA
from tests.support.jobs import target_of
from tests.support.searching import index_names, measure_by_few, walk_request, without_shard

SIZE, DIMENSIONS, INTRINSIC = 1200, 1536, 60
QUERIES = 12
FEW = 400
"""Enough where it does not matter how many rows an index has."""


def structured(number: int, seed: int = 0) -> Vectors:
    """Vectors of 60 directions that count less and less, as those of texts, and a little of everything else."""
    chance = np.random.default_rng(seed)
    spread = np.arange(1, INTRINSIC + 1) ** -0.5
    spread /= np.linalg.norm(spread)
    directions = np.random.default_rng(99).normal(size=(INTRINSIC, DIMENSIONS))
    noise = 0.1 * chance.normal(size=(number, DIMENSIONS))
    points: Vectors = ((chance.normal(size=(number, INTRINSIC)) * spread) @ directions + noise).astype(np.float32)
    return points


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def corpus(database_url: str) -> AsyncIterator[Corpus]:
    """1,200 vectors of 1,536 dimensions, with the quantised index that they ask for."""
    own_settings = Settings(tenant="quantised", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=own_settings) as platform:
        filled = await make_corpus(platform, structured(SIZE), queries=QUERIES)
        await platform.collection("corpus", index="quantised")
        assert await keep_outcome(platform, filled.collection) is IndexOutcome.BUILT
        yield replace(filled, queries=structured(QUERIES, seed=5))


async def keep_outcome(platform: Platform, collection: Collection) -> IndexOutcome:
    """The outcome of keeping the index, which a collection of that size needs."""
    outcome = await keep_index(platform.database, platform.tenant_id, await collection.refresh(), rows=FEW)
    await collection.refresh()
    return outcome


async def definition(platform: Platform, collection: Collection) -> str:
    """The index, or its first part, as PostgreSQL says it."""
    name = index_names(await collection.refresh())[0]
    async with platform.database.maintenance() as connection:
        row = await (await connection.execute("SELECT pg_get_indexdef(%s::regclass)", (f"{SCHEMA}.{name}",))).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.asyncio(loop_scope="module")
async def test_a_collection_that_asks_for_it_has_a_quantised_index_of_its_own(corpus: Corpus) -> None:
    """One bit a dimension, of this collection's rows alone; it says so, and takes a fraction of the vectors' bytes."""
    stored = await corpus.collection.refresh()
    text = await definition(corpus.platform, corpus.collection)
    assert "binary_quantize(vector))::bit(1536)" in text
    assert "bit_hamming_ops" in text
    assert f"(collection_id = {stored.collection_id})" in text
    info = await corpus.collection.info()
    assert (info.index, info.has_hnsw, info.is_quantised) == ("quantised", True, True)
    assert stored.ann_index is not None
    assert stored.ann_index.index_bytes < SIZE * 2 * DIMENSIONS / 4
    assert stored.ann_index.recall >= 0.99
    assert "quantised" in corpus.collection._repr_html_()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("where", [None, {"even": True}, {"share": {"lt": 500}}])
async def test_a_walk_is_one_scan_of_that_index_and_sorts_nothing_else(
    corpus: Corpus, where: dict[str, Any] | None
) -> None:
    """As the application role, without a filter, and with filters that facets can test or cannot."""
    request = await walk_request(corpus.collection, where)
    stored = await corpus.collection.refresh()
    assert stored.space is not None
    statement = bound(request, Query(vector=corpus.queries[0]))
    async with corpus.platform.database.transaction(corpus.platform.tenant_id) as connection:
        await corpus.platform.database.set_locally(connection, settings(request))
        cursor = await connection.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {statement.text}", statement.parameters)
        plan = "\n".join([without_shard(row[0]) async for row in cursor])
    for name in index_names(stored):
        assert plan.count(f"Index Scan using {name} ") == 1
    assert "<~>" in plan
    assert f"Seq Scan on {stored.space.table_name}" not in plan


@pytest.mark.asyncio(loop_scope="module")
async def test_hits_are_ranked_by_their_stored_vectors(corpus: Corpus) -> None:
    """The score is the cosine similarity of the vectors; the number of compared rows is reported."""
    index = (await corpus.collection.refresh()).ann_index
    assert index is not None
    for query in corpus.queries:
        result = await corpus.collection.search(vector=query, limit=10, legs=["dense"])
        assert result.path is Path.APPROXIMATE
        assert result.weighed == index.effort_10
        true = [float(corpus.vectors[int(hit.item_id)] @ (query / np.linalg.norm(query))) for hit in result]
        assert [hit.score for hit in result] == pytest.approx(true, abs=2e-3)
        assert [hit.score for hit in result] == sorted((hit.score for hit in result), reverse=True)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("limit", [1, 10, 100])
@pytest.mark.parametrize("per_mille", [5, 20, 100, 500, 1000, None])
async def test_the_recall_contract_holds(corpus: Corpus, per_mille: int | None, limit: int) -> None:
    """Full pages and 99 % of the nearest at every selectivity, near the question or far from it, and unfiltered."""
    for field, values, queries in (
        ("share", corpus.shares, corpus.queries),
        ("rank", corpus.ranks, corpus.polar[:4]),
    ):
        where = None if per_mille is None else {field: {"lt": per_mille}}
        results = await corpus.found(queries, where, limit)
        assert mean(corpus.recalls(queries, values < (per_mille or 1000), limit, results)) >= 0.99
    if per_mille == 500:
        results = await corpus.found(corpus.queries, {"even": True}, limit)
        assert mean(corpus.recalls(corpus.queries, np.arange(SIZE) % 2 == 0, limit, results)) >= 0.99


@pytest.mark.asyncio(loop_scope="module")
async def test_without_enough_rows_to_rank_the_nearest_are_missed(corpus: Corpus) -> None:
    """The effort is needed: the ten that share the most bits are not the ten nearest."""
    query_vectors = [Query(vector=query / np.linalg.norm(query)) for query in corpus.queries]
    each = []
    for effort in (10, 400):
        request = await walk_request(corpus.collection, effort=effort, reach=0)
        database, tenant = corpus.platform.database, corpus.platform.tenant_id
        answers = await database.read_each(
            tenant, [bound(request, depth) for depth in query_vectors], settings(request)
        )
        scores = [sorted((row[2] for row in rows if row[0] == "dense"), reverse=True) for rows in answers]
        each.append(
            np.mean([_share(corpus, query, scored) for query, scored in zip(corpus.queries, scores, strict=True)])
        )
    assert each[0] < 0.9
    assert each[1] >= 0.99


def _share(corpus: Corpus, query: Vectors, scores: list[float]) -> float:
    true = corpus.true_scores(query, np.ones(SIZE, dtype=bool), 10)
    return float(np.mean([score >= true[-1] - 1e-5 for score in scores[:10]]))


@pytest.mark.asyncio(loop_scope="module")
async def test_another_tenants_vectors_stay_unseen(corpus: Corpus) -> None:
    """Both collections lie in one table, each with an index of its own."""
    stored = await corpus.collection.refresh()
    assert stored.space is not None
    own_settings = corpus.platform.settings.changed(tenant="quantised-other")
    async with connect(corpus.platform.database.url, settings=own_settings) as other:
        theirs = await other.collection("theirs", space=stored.space.space, index="quantised")
        await theirs.add([{"_id": f"their{n}"} for n in range(FEW)], embeddings=structured(FEW, seed=8))
        assert await keep_outcome(other, theirs) is IndexOutcome.BUILT
        for query in corpus.queries[:4]:
            result = await theirs.search(vector=query, limit=20, legs=["dense"])
            assert result.path is Path.APPROXIMATE
            assert len(result) == 20
            assert all(hit.item_id.startswith("their") for hit in result)
        async with other.database.transaction(other.tenant_id) as connection:
            cursor = await connection.execute(
                f"SELECT count(*) FROM {SCHEMA}.{stored.space.table_name} WHERE collection_id = %s".encode(),  # noqa: S608
                (stored.collection_id,),
            )
            assert await cursor.fetchone() == (0,)


@pytest.fixture
async def small(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Collection:
    """A collection that may have either kind, without an index yet."""
    measure_by_few(monkeypatch)
    space = EmbeddingSpace(provider="test", model="kinds", dimensions=DIMENSIONS)
    collection = await platform.collection("docs", space=space, index="full")
    await collection.add([{"_id": str(number)} for number in range(FEW)], embeddings=structured(FEW))
    return collection


async def test_the_kind_is_chosen_when_the_collection_is_made_and_can_be_changed(
    platform: Platform, small: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is replaced by the next job; until then the old one answers."""
    monkeypatch.setattr("retrieval.services.indexes.index_rows", lambda _: FEW)
    assert await keep_outcome(platform, small) is IndexOutcome.BUILT
    assert "halfvec_ip_ops" in await definition(platform, small)
    assert not (await small.info()).is_quantised
    for kind, text in (("quantised", "bit_hamming_ops"), ("full", "halfvec_ip_ops")):
        again = await platform.collection("docs", index=kind)
        assert (await again.info()).index == kind
        assert is_index_off(await small.refresh())
        before = await small.search(vector=structured(1, seed=6)[0], limit=10)
        assert before.path is Path.APPROXIMATE
        stored = await small.refresh()
        rebuilt = rebuild_index if kind == "full" else keep_index
        assert await rebuilt(platform.database, platform.tenant_id, stored) is IndexOutcome.REPLACED
        assert text in await definition(platform, small)
        assert await keep_outcome(platform, small) is IndexOutcome.PRESENT
        after = await small.search(vector=structured(1, seed=6)[0], limit=10)
        assert after.path is Path.APPROXIMATE
        assert [hit.item_id for hit in after] == [hit.item_id for hit in before]
        index = (await small.refresh()).ann_index
        assert index is not None
        assert (index.is_quantised, index.is_measured) == (kind == "quantised", True)
    with pytest.raises(InvalidRequestError, match="there is no index 'bits'"):
        await platform.collection("docs", index="bits")


async def test_remains_of_an_interrupted_replacement_are_removed(platform: Platform, small: Collection) -> None:
    """It is valid, and would cost maintenance without use; searches walk the measured index."""
    await keep_outcome(platform, small)
    stored = await small.refresh()
    assert stored.space is not None
    assert stored.ann_index is not None
    place, form = (stored.space.space_id, stored.collection_id), stored.ann_index.form
    other = form._replace(is_quantised=not form.is_quantised)
    async with platform.database.maintenance() as connection:
        for name in other.names(*place):
            table = f"{SCHEMA}.{stored.space.table_name}"
            await connection.execute(f"CREATE INDEX {name} ON {table} ((collection_id + 1))".encode())
    assert (await small.refresh()).ann_index == stored.ann_index
    assert await keep_outcome(platform, small) is IndexOutcome.PRESENT
    assert sorted(await hnsw_indexes(platform.database, *place)) == sorted(form.names(*place))


async def test_an_index_that_is_not_measured_yet_answers_nothing(platform: Platform, small: Collection) -> None:
    """The number of rows to rank depends on the vectors."""
    await platform.collection("docs", index="quantised")
    await keep_outcome(platform, small)
    stored = await small.refresh()
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute("DELETE FROM ann_indexes WHERE collection_id = %s", (stored.collection_id,))
    stored = await small.refresh()
    assert stored.ann_index is not None
    assert stored.ann_index.effort_10 == BEYOND
    assert (await small.search(vector=structured(1)[0])).path is Path.EXACT
    assert await keep_outcome(platform, small) is IndexOutcome.REBUILT
    assert (await small.search(vector=structured(1)[0])).path is Path.APPROXIMATE


async def test_vectors_whose_bits_tell_too_little_get_a_full_index(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself a collection turns to the full one; one that asks for bits compares all vectors."""
    # In random directions the nearest are hardly nearer than others; the more items, the less bits tell.
    monkeypatch.setattr("retrieval.services.indexes._EFFORTS", (40, 60))
    vectors = np.random.default_rng(3).normal(size=(SIZE, DIMENSIONS)).astype(np.float32)
    space = EmbeddingSpace(provider="test", model="isotropic", dimensions=DIMENSIONS)
    asking = await platform.collection("asking", space=space, index="quantised")
    await asking.add([{"_id": str(number)} for number in range(SIZE)], embeddings=vectors)
    assert await keep_outcome(platform, asking) is IndexOutcome.BUILT
    index = (await asking.refresh()).ann_index
    assert index is not None
    assert (index.is_quantised, index.effort_10) == (True, BEYOND)
    assert index.recall < 0.99
    assert (await asking.search(vector=vectors[0])).path is Path.EXACT
    assert await keep_outcome(platform, asking) is IndexOutcome.PRESENT

    # The same with ``auto``: the job builds the full index.
    await platform.collection("asking", index="auto")
    assert await keep_outcome(platform, asking) is IndexOutcome.REPLACED
    assert "halfvec_ip_ops" in await definition(platform, asking)
    assert await keep_outcome(platform, asking) is IndexOutcome.PRESENT


async def test_a_sunken_recall_raises_the_number_of_rows_that_are_compared(
    platform: Platform, small: Collection
) -> None:
    """Step by step."""
    await platform.collection("docs", index="quantised")
    await keep_outcome(platform, small)
    target = await target_of(platform, small)
    index, space = target.collection.ann_index, target.collection.space
    assert index is not None
    assert index.is_quantised
    assert space is not None
    place = (target.collection.collection_id, space.space_id)
    for query in structured(12, seed=5):
        unit = query / np.linalg.norm(query)
        await keep_sample(
            CollectionPlace(platform.database, platform.tenant_id, place[0]),
            place[1],
            vector=unit,
            condition_json=None,
            limit=10,
        )

    async def with_effort(effort: int) -> StoredCollection:
        efforts = replace(index, effort_10=effort, effort_100=effort, effort_200=effort)
        async with platform.database.transaction(platform.tenant_id) as connection:
            await keep_measured(connection, *place, efforts)
        return await small.refresh()

    await with_effort(10)
    measured = await measure_recall(platform.workplace, await target_of(platform, small))
    assert measured["recall"] < 0.9
    assert measured["action"] == "effort raised to 15"
    raised = (await small.refresh()).ann_index
    assert raised is not None
    assert raised.effort_10 == 15
