"""The recall contract: ask for k of at least k matching items and get k, the true nearest ones, whatever the filter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from statistics import mean
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from retrieval import Settings, connect
from retrieval.adapters.store.search.candidate_request import Query
from retrieval.adapters.store.search.candidates import find_candidates_of_each
from retrieval.collection import handle_of
from retrieval.domain.search.hit import Path, SearchResult
from retrieval.services.indexes import IndexOutcome, index_rows, keep_index
from tests.support.corpora import START, Corpus, Mask, clustered, make_corpus, recall
from tests.support.database import SCHEMA
from tests.support.searching import walk_request

SIZE, DIMENSIONS = 6_000, 384
PER_MILLE = (1, 5, 20, 100, 500, 1000)
LIMITS = (1, 10, 100, 1000)
QUERIES = {1: 12, 10: 12, 100: 6, 1000: 2}
"""By limit: a long page tells of more neighbours than a short one."""

Filter = Callable[[Corpus], tuple[dict[str, Any], Mask]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def corpus(database_url: str) -> AsyncIterator[Corpus]:
    """6,000 vectors of 384 dimensions around 200 centres, with the index that adding them makes."""
    settings = Settings(tenant="recall", database_schema=SCHEMA, embedder="none")
    vectors = clustered(np.random.default_rng(1), SIZE, DIMENSIONS, 200)
    async with connect(database_url, settings=settings) as platform:
        yield await make_corpus(platform, vectors, queries=20)


def _check_account(result: SearchResult, matching: int) -> None:
    """The path, the rows weighed and the reason agree with one another and with what matches."""
    if result.path is Path.APPROXIMATE:
        assert len(result) <= result.weighed <= SIZE
        assert "the HNSW index was walked" in result.why
    elif "the index found too few" in result.why:
        assert result.weighed >= matching
    else:
        assert result.path is Path.EXACT
        assert result.weighed == matching
        assert f"{matching} of {SIZE} items match" in result.why


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("per_mille", PER_MILLE)
async def test_a_page_is_full_and_right_at_every_selectivity(corpus: Corpus, per_mille: int, limit: int) -> None:
    """The filter has nothing to do with the query; few matches are compared, of very many the index is walked."""
    mask, queries = corpus.shares < per_mille, corpus.queries[: QUERIES[limit]]
    results = await corpus.found(queries, {"share": {"lt": per_mille}}, limit)
    assert mean(corpus.recalls(queries, mask, limit, results)) >= 0.99
    for result in results:
        _check_account(result, int(mask.sum()))
    if per_mille <= 5:
        assert {result.path for result in results} == {Path.EXACT}
    if per_mille == 1000 and limit <= 10:
        assert {result.path for result in results} == {Path.APPROXIMATE}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("per_mille", PER_MILLE)
async def test_a_page_is_full_and_right_where_the_filter_wants_what_is_far(
    corpus: Corpus, per_mille: int, limit: int
) -> None:
    """If only items match that are far from the query, an index walk meets none of them at first."""
    mask, queries = corpus.ranks < per_mille, corpus.polar[: min(QUERIES[limit], 5)]
    results = await corpus.found(queries, {"rank": {"lt": per_mille}}, limit)
    assert mean(corpus.recalls(queries, mask, limit, results)) >= 0.99
    for result in results:
        _check_account(result, int(mask.sum()))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("limit", LIMITS)
async def test_a_page_is_full_and_right_without_a_filter(corpus: Corpus, limit: int) -> None:
    """A page of ten is the index's; for a thousand all vectors are compared where that is safer."""
    mask, queries = np.ones(SIZE, dtype=bool), corpus.queries[: QUERIES[limit]]
    results = await corpus.found(queries, None, limit)
    assert mean(corpus.recalls(queries, mask, limit, results)) >= 0.99
    for result in results:
        assert limit <= result.weighed <= SIZE
        if limit <= 10:
            assert result.path is Path.APPROXIMATE
            assert result.why == f"unfiltered among {SIZE} items: the HNSW index was walked"


def _places() -> NDArray[np.int64]:
    return np.arange(SIZE)


def _colour(_: Corpus) -> tuple[dict[str, Any], Mask]:
    return {"colour": "c3"}, _places() % 10 == 3


def _even(_: Corpus) -> tuple[dict[str, Any], Mask]:
    return {"even": True}, _places() % 2 == 0


def _colours(_: Corpus) -> tuple[dict[str, Any], Mask]:
    return {"colour": ["c1", "c2", "c3"]}, np.isin(_places() % 10, [1, 2, 3])


def _farthest_tenth(corpus: Corpus) -> tuple[dict[str, Any], Mask]:
    return {"decile": 0}, corpus.ranks < 100


def _farther_half(corpus: Corpus) -> tuple[dict[str, Any], Mask]:
    return {"decile": list(range(5))}, corpus.ranks < 500


def _nearest_tenth(corpus: Corpus) -> tuple[dict[str, Any], Mask]:
    return {"decile": 9}, corpus.ranks >= 900


def _half_of_the_farther_half(corpus: Corpus) -> tuple[dict[str, Any], Mask]:
    return {"decile": list(range(5)), "even": True}, (corpus.ranks < 500) & (_places() % 2 == 0)


def _colours_and_kind(_: Corpus) -> tuple[dict[str, Any], Mask]:
    return {"colour": {"in": ["c1", "c2"]}, "kind": "kind1"}, np.isin(_places() % 10, [1, 2]) & (_places() % 4 == 1)


def _any_tag(_: Corpus) -> tuple[dict[str, Any], Mask]:
    return {"tags": ["a1", "b2"]}, (_places() % 5 == 1) | (_places() % 7 == 2)


def _all_tags(_: Corpus) -> tuple[dict[str, Any], Mask]:
    return {"tags": {"all": ["a1", "b2"]}}, (_places() % 5 == 1) & (_places() % 7 == 2)


def _not(_: Corpus) -> tuple[dict[str, Any], Mask]:
    return {"not": {"colour": ["c1", "c2", "c3"]}, "even": True}, (
        ~np.isin(_places() % 10, [1, 2, 3]) & (_places() % 2 == 0)
    )


def _thousands_of_keys(corpus: Corpus) -> tuple[dict[str, Any], Mask]:
    numbers = np.random.default_rng(8).choice(corpus.size, size=4000, replace=False)
    return {"item_id": {"in": [f"{place:06}" for place in numbers]}}, np.isin(_places(), numbers)


def _none_of_thousands_of_keys(corpus: Corpus) -> tuple[dict[str, Any], Mask]:
    # The nearest of the pole, so that the filter excludes the queries' nearest items.
    near = np.argsort(corpus.ranks, kind="stable")[-3000:]
    return {"item_id": {"nin": [f"{place:06}" for place in near]}}, ~np.isin(_places(), near)


def _time(corpus: Corpus) -> tuple[dict[str, Any], Mask]:
    since = START + timedelta(hours=5000)
    where = {"occurred_at": {"gte": since.isoformat()}, "share": {"gte": 300, "lt": 420}}
    return where, (_places() >= 5000) & (corpus.shares >= 300) & (corpus.shares < 420)


def _either(corpus: Corpus) -> tuple[dict[str, Any], Mask]:
    where = {"or": [{"and": [{"colour": "c3"}, {"rank": {"lt": 200}}]}, {"share": {"lt": 2}}]}
    return where, ((_places() % 10 == 3) & (corpus.ranks < 200)) | (corpus.shares < 2)


KINDS = (
    _colour,
    _colours,
    _even,
    _farthest_tenth,
    _farther_half,
    _nearest_tenth,
    _half_of_the_farther_half,
    _colours_and_kind,
    _any_tag,
    _all_tags,
    _not,
    _thousands_of_keys,
    _none_of_thousands_of_keys,
    _time,
    _either,
)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("limit", [10, 100])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__.strip("_"))
async def test_a_page_is_full_and_right_for_every_kind_of_filter(corpus: Corpus, kind: Filter, limit: int) -> None:
    """Equality, lists, ranges, tags, keys, times and their combinations; near the pole and elsewhere."""
    where, mask = kind(corpus)
    queries = np.concatenate([corpus.queries[:8], corpus.polar[:4]])
    results = await corpus.found(queries, where, limit)
    assert mean(corpus.recalls(queries, mask, limit, results)) >= 0.99
    for result in results:
        _check_account(result, int(mask.sum()))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("reach", [0, 1, 60])
async def test_a_walk_that_may_not_go_far_enough_falls_short_and_all_are_compared(corpus: Corpus, reach: int) -> None:
    """The exact search replaces the short page, and the account reports both."""
    mask = corpus.ranks < 100
    request = await walk_request(corpus.collection, {"rank": {"lt": 100}}, reach=reach)
    each = await find_candidates_of_each(
        corpus.platform.database,
        corpus.platform.tenant_id,
        request,
        [Query(vector=query / np.linalg.norm(query)) for query in corpus.polar[:3]],
    )
    for query, answer in zip(corpus.polar, each, strict=False):
        assert answer.fell_short
        assert answer.path is Path.EXACT
        assert answer.weighed >= int(mask.sum())
        assert (
            recall([candidate.score for candidate in answer.rankings["dense"]], corpus.true_scores(query, mask, 10))
            == 1
        )


@pytest.mark.asyncio(loop_scope="module")
async def test_a_walk_that_may_go_far_enough_does_not_fall_short(corpus: Corpus) -> None:
    """Half of the items match: the index alone fills the page, and only some rows are compared."""
    request = await walk_request(corpus.collection, {"share": {"lt": 500}})
    each = await find_candidates_of_each(
        corpus.platform.database,
        corpus.platform.tenant_id,
        request,
        [Query(vector=query / np.linalg.norm(query)) for query in corpus.queries],
    )
    for answer in each:
        assert (answer.fell_short, answer.path) == (False, Path.APPROXIMATE)
        assert len(answer.rankings["dense"]) == 10
        assert 10 <= answer.weighed < SIZE // 10
    true = [corpus.true_scores(query, corpus.shares < 500, 10) for query in corpus.queries]
    scores = [[candidate.score for candidate in answer.rankings["dense"]] for answer in each]
    assert mean(map(recall, scores, true)) >= 0.99


@pytest.mark.asyncio(loop_scope="module")
async def test_measurements_are_stored_with_the_collection(corpus: Corpus) -> None:
    """Efforts rise with the page size, the recall is that of the effort, and each step has a cost."""
    index = (await corpus.collection.refresh()).ann_index
    assert index is not None
    assert index.is_measured
    assert index.rows == SIZE
    assert index.index_bytes > SIZE * 2 * DIMENSIONS
    assert 40 / index.parts <= index.effort_10 <= index.effort_100 <= index.effort_200 <= 1001
    assert index.recall >= 0.99
    assert min(index.exact_row_us, index.walk_row_us) > 0


WIDE, WIDE_DIMENSIONS = 2_200, 3_072
HARD, HARD_DIMENSIONS = 4_000, 64


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wide(database_url: str) -> AsyncIterator[Corpus]:
    """2,200 vectors of 3072 dimensions: enough for an index, of which fewer are needed the longer the vectors are."""
    settings = Settings(tenant="recall-wide", database_schema=SCHEMA, embedder="none")
    vectors = clustered(np.random.default_rng(2), WIDE, WIDE_DIMENSIONS, 30)
    async with connect(database_url, settings=settings) as platform:
        yield await make_corpus(platform, vectors, queries=10)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hard(database_url: str) -> AsyncIterator[Corpus]:
    """4,000 vectors in all directions, without any neighbourhoods, and an index on them."""
    settings = Settings(tenant="recall-hard", database_schema=SCHEMA, embedder="none")
    vectors = np.random.default_rng(4).normal(size=(HARD, HARD_DIMENSIONS)).astype(np.float32)
    async with connect(database_url, settings=settings) as platform:
        corpus = await make_corpus(platform, vectors, queries=20)
        collection = await corpus.collection.refresh()
        built = await keep_index(platform.database, platform.tenant_id, collection, rows=HARD)
        assert built is IndexOutcome.BUILT
        await corpus.collection.refresh()
        yield corpus


@pytest.mark.asyncio(loop_scope="module")
async def test_fewer_long_vectors_are_enough_for_an_index(wide: Corpus) -> None:
    """Comparing all takes longer the longer they are."""
    assert index_rows(WIDE_DIMENSIONS) <= WIDE < index_rows(384)
    assert (await wide.collection.refresh()).ann_index is not None


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("limit", [10, 100, 1000])
@pytest.mark.parametrize("per_mille", [5, 20, 100, 500, 1000])
async def test_a_page_of_long_vectors_is_full_and_right(wide: Corpus, per_mille: int, limit: int) -> None:
    """This holds at every selectivity, for filters that depend on the query and for those that select distant items."""
    for queries, field, values in ((wide.queries[:3], "share", wide.shares), (wide.polar[:2], "rank", wide.ranks)):
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
    """If not even the greatest effort finds 99 %, every search compares all vectors and says so."""
    collection = await hard.collection.refresh()
    assert collection.ann_index is not None
    useless = replace(
        collection, ann_index=replace(collection.ann_index, effort_10=1001, effort_100=1001, effort_200=1001)
    )
    handle_of(hard.collection).stored = useless  # an artificial measurement
    for where in (None, {"share": {"lt": 500}}):
        results = await hard.found(hard.queries[:3], where, 10)
        assert {result.path for result in results} == {Path.EXACT}
    await hard.collection.refresh()
