"""The recall contract at 3072 dimensions, and on vectors that no index finds easily."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from statistics import mean

import numpy as np
import pytest
import pytest_asyncio

from retrieval import Settings, connect
from retrieval.collection import handle_of
from retrieval.domain.search.hit import Path
from retrieval.services.indexes import IndexOutcome, index_rows, keep_index
from tests.support.corpora import Corpus, clustered, make_corpus
from tests.support.database import SCHEMA

WIDE, WIDE_DIMENSIONS = 2_200, 3_072
HARD, HARD_DIMENSIONS = 5_000, 64


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wide(database_url: str) -> AsyncIterator[Corpus]:
    """2,200 vectors of 3072 dimensions: enough for an index, of which fewer are needed the longer the vectors are."""
    settings = Settings(tenant="recall-wide", database_schema=SCHEMA, embedder="none")
    vectors = clustered(np.random.default_rng(2), WIDE, WIDE_DIMENSIONS, 30)
    async with connect(database_url, settings=settings) as platform:
        yield await make_corpus(platform, vectors, queries=10)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hard(database_url: str) -> AsyncIterator[Corpus]:
    """5,000 vectors in all directions, without any neighbourhoods, and an index on them."""
    settings = Settings(tenant="recall-hard", database_schema=SCHEMA, embedder="none")
    vectors = np.random.default_rng(4).normal(size=(HARD, HARD_DIMENSIONS)).astype(np.float32)
    async with connect(database_url, settings=settings) as platform:
        corpus = await make_corpus(platform, vectors, queries=20)
        known = await corpus.collection.refresh()
        built = await keep_index(platform.database, platform.tenant_id, known, rows=HARD)
        assert built is IndexOutcome.BUILT
        await corpus.collection.refresh()
        yield corpus


@pytest.mark.asyncio(loop_scope="module")
async def test_fewer_long_vectors_are_enough_for_an_index(wide: Corpus) -> None:
    """Comparing all takes longer the longer they are."""
    assert index_rows(WIDE_DIMENSIONS) <= WIDE < index_rows(384)
    assert (await wide.collection.refresh()).ann_index is not None


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("limit", [1, 10, 100, 1000])
@pytest.mark.parametrize("per_mille", [1, 5, 10, 20, 100, 500, 1000])
async def test_a_page_of_long_vectors_is_full_and_right(wide: Corpus, per_mille: int, limit: int) -> None:
    """At every selectivity, whether the filter has to do with the query or wants what is far from it."""
    for queries, field, values in ((wide.queries[:5], "share", wide.shares), (wide.polar[:3], "rank", wide.ranks)):
        results = await wide.found(queries, {field: {"lt": per_mille}}, limit)
        assert mean(wide.recalls(queries, values < per_mille, limit, results)) >= 0.99
        if per_mille <= 5:
            assert {result.path for result in results} == {Path.EXACT}


@pytest.mark.asyncio(loop_scope="module")
async def test_an_index_that_needs_much_effort_is_known_to_need_it(hard: Corpus, wide: Corpus) -> None:
    """The effort is the vectors' own: in no neighbourhood it is greater than among clusters."""
    needs_much = (await hard.collection.refresh()).ann_index
    needs_little = (await wide.collection.refresh()).ann_index
    assert needs_much is not None
    assert needs_little is not None
    assert needs_much.recall >= 0.99
    assert needs_much.effort_10 > needs_little.effort_10


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("limit", [1, 10, 100, 1000])
async def test_recall_holds_on_vectors_without_neighbourhoods(hard: Corpus, limit: int) -> None:
    """Filtered or not."""
    queries = hard.queries if limit < 1000 else hard.queries[:4]
    results = await hard.found(queries, None, limit)
    assert mean(hard.recalls(queries, np.ones(HARD, dtype=bool), limit, results)) >= 0.99
    for per_mille in (10, 100, 500):
        results = await hard.found(queries, {"share": {"lt": per_mille}}, limit)
        assert mean(hard.recalls(queries, hard.shares < per_mille, limit, results)) >= 0.99


@pytest.mark.asyncio(loop_scope="module")
async def test_an_index_that_no_effort_helps_is_not_walked(hard: Corpus) -> None:
    """Where not even the greatest effort finds 99 %, every search compares all vectors and says so."""
    known = await hard.collection.refresh()
    assert known.ann_index is not None
    useless = replace(known, ann_index=replace(known.ann_index, effort_10=1001, effort_100=1001, effort_200=1001))
    handle_of(hard.collection).stored = useless  # as if it had been measured so
    for where in (None, {"share": {"lt": 500}}):
        results = await hard.found(hard.queries[:3], where, 10)
        assert {result.path for result in results} == {Path.EXACT}
    await hard.collection.refresh()
