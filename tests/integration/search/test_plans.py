"""Query plans: the indexes that searches, filters and lists use, and the statements that they take."""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from retrieval import Collection, EmbeddingSpace, Platform, Settings, connect
from retrieval.adapters.store.compiled import Compiled, compiled
from retrieval.adapters.store.database import Connection, Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.conditions import matching
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import bound, find_candidates, settings
from retrieval.collection import handle_of
from retrieval.domain.search.filters import parse_field, parse_where
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import LegName
from retrieval.engine import collection_handle
from retrieval.engine.plan import choose_way, share_by_facets
from retrieval.engine.reading import latest, paths
from retrieval.services import indexes
from tests.conftest import NewDatabase
from tests.support.cluster import not_on_a_cluster
from tests.support.database import SCHEMA
from tests.support.searching import index_names, measure_by_few, without_shard

MANY, ENOUGH_US = 6_000, 1_000
"""The number of items, and the time of comparing all of them above which a collection gets an index."""

SPACE = EmbeddingSpace(provider="test", model="directions", dimensions=32)
LEXEMES = "item_terms_lexemes_idx"

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Corpus:
    """A collection that is large enough for an HNSW index, and one of another tenant that is not."""

    large: Platform
    small: Platform
    queries: Vectors


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def corpus(database_url: str) -> AsyncIterator[Corpus]:
    """6,000 short items with vectors around 200 centres, and 50 of another tenant in the same space."""
    chance = np.random.default_rng(7)
    centres = chance.normal(size=(200, SPACE.dimensions))

    def near(number: int) -> Vectors:
        points = centres[chance.integers(200, size=number)] + 0.6 * chance.normal(size=(number, SPACE.dimensions))
        return points.astype(np.float32)

    settings = Settings(tenant="plans-large", database_schema=SCHEMA, embedder="none")
    async with (
        connect(database_url, settings=settings) as large,
        connect(database_url, settings=settings.changed(tenant="plans-small")) as small,
    ):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(indexes, "EXACT_SCAN_US", ENOUGH_US)
            measure_by_few(patched)
            await _fill(large, near(MANY))
        await _fill(small, near(50))
        yield Corpus(large, small, near(40))


async def _fill(platform: Platform, vectors: Vectors) -> None:
    collection = await platform.collection("docs", space=SPACE)
    items = [
        {"_id": f"{number:06}", "text": f"common word{number} group{number % 50}", "group": number % 50}
        for number in range(len(vectors))
    ]
    await collection.add(items, embeddings=vectors)


async def _open(platform: Platform) -> tuple[Collection, StoredCollection]:
    collection = await platform.collection("docs")
    return collection, await collection.refresh()


def _request(stored: StoredCollection, leg: LegName, path: Path, **where: object) -> CandidateRequest:
    assert stored.space is not None
    return CandidateRequest(
        collection_id=stored.collection_id,
        legs=(leg,),
        depth=100,
        condition=parse_where(where),
        path=path,
        space_id=stored.space.space_id,
        dimensions=SPACE.dimensions,
        parts=1 if stored.ann_index is None else stored.ann_index.parts,
    )


async def _scanned(platform: Platform, request: CandidateRequest, *, query: str, vector: Vectors) -> dict[str, int]:
    """The number of scans of each index of the schema by a leg's statement, run as the application role."""
    statement = bound(request, Query(query, vector))
    async with platform.database.transaction(platform.tenant_id) as connection:
        await platform.database.set_locally(connection, settings(request))
        before = await _index_scans(connection)
        await connection.execute(statement.text, statement.parameters)
        return {
            name: scans - before[name]
            for name, scans in (await _index_scans(connection)).items()
            if scans > before[name]
        }


async def _plan(platform: Platform, request: CandidateRequest, query: Query) -> str:
    statement = bound(request, query)
    async with platform.database.transaction(platform.tenant_id) as connection:
        await platform.database.set_locally(connection, settings(request))
        cursor = await connection.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {statement.text}", statement.parameters)
        return "\n".join([without_shard(row[0]) async for row in cursor])


async def _index_scans(connection: Connection) -> dict[str, int]:
    cursor = await connection.execute(
        "SELECT relname::text, pg_stat_get_xact_numscans(oid) FROM pg_class "
        "WHERE relkind = 'i' AND relnamespace = %s::regnamespace",
        (SCHEMA,),
    )
    return dict(await cursor.fetchall())


def _hnsw(stored: StoredCollection) -> str:
    """The name of its index, or of the first part of that."""
    return index_names(stored)[0]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_large_collection_has_an_hnsw_index_of_its_own_and_a_small_one_has_none(corpus: Corpus) -> None:
    """Adding many items builds the index on the collection's literal number; searches then say ``approximate``."""
    collection, stored = await _open(corpus.large)
    assert stored.ann_index is not None
    async with corpus.large.database.maintenance() as connection:
        cursor = await connection.execute("SELECT pg_get_indexdef(%s::regclass)", (f"{SCHEMA}.{_hnsw(stored)}",))
        row = await cursor.fetchone()
    assert row is not None
    assert f"(collection_id = {stored.collection_id})" in row[0]
    assert (await collection.search(vector=corpus.queries[0])).path is Path.APPROXIMATE
    other, small = await _open(corpus.small)
    assert small.ann_index is None
    assert (await other.search(vector=corpus.queries[0])).path is Path.EXACT


@not_on_a_cluster("what a transaction scans is counted by the node")
@pytest.mark.asyncio(loop_scope="module")
async def test_the_lexical_leg_walks_the_index_of_lexemes_under_the_policies(corpus: Corpus) -> None:
    """Row-level security does not keep the application role's search from the GIN index, for rare or common words."""
    for platform in (corpus.large, corpus.small):
        _, stored = await _open(platform)
        for query in ("word17", "common", "common word3 group7"):
            scanned = await _scanned(
                platform, _request(stored, LegName.LEXICAL, Path.NONE), query=query, vector=corpus.queries[0]
            )
            assert scanned.get(LEXEMES, 0) >= 1, query
            assert "item_terms_pkey" not in scanned, query


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("legs", [(LegName.LEXICAL,), (LegName.LEXICAL, LegName.RECENT)])
async def test_columns_of_a_candidate_are_looked_up_by_key(corpus: Corpus, legs: tuple[LegName, ...]) -> None:
    """The planner estimates 1,000 rows for a function; the collection's items are not scanned for ten."""
    _, stored = await _open(corpus.large)
    request = replace(_request(stored, LegName.LEXICAL, Path.NONE), legs=legs, depth=10)
    for variant in (replace(request, with_items=True), replace(request, fields=(parse_field("group"),))):
        plan = await _plan(corpus.large, variant, Query("word17 common"))
        assert "Seq Scan on items" not in plan
        assert "Hash" not in plan
        assert "Index Scan using items_pkey on items" in plan


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("prefixes", [[], ["word1"]])
async def test_a_lexical_search_looks_at_few_items_and_finds_the_best(corpus: Corpus, prefixes: list[str]) -> None:
    """Items with two common words, or a rare one, are ranked; the best are all found."""
    _, stored = await _open(corpus.large)
    statement = "SELECT item_id, score FROM lexical_search(%s, 'common group3 group7 word3', %s, 20, %s)"
    async with corpus.large.database.transaction(corpus.large.tenant_id) as connection:
        ranked = []
        for at_least in (None, 10**9):
            cursor = await connection.execute(statement, (stored.collection_id, prefixes, at_least))
            ranked.append(await cursor.fetchall())
    # Several plans are equally good.
    assert [score for _, score in ranked[0]] == [score for _, score in ranked[1]]
    assert ranked[0][0][0] == "000003"


@not_on_a_cluster("what a transaction scans is counted by the node")
@pytest.mark.asyncio(loop_scope="module")
async def test_phrases_and_prefixes_walk_their_indexes_under_the_policies(corpus: Corpus) -> None:
    """A phrase uses the index of lexemes, a prefix that of spellings; no table is read as a whole."""
    _, stored = await _open(corpus.large)
    async with corpus.large.database.transaction(corpus.large.tenant_id) as connection:
        for statement, index in (
            ("SELECT FROM items_containing(%(id)s, 'word17 group17')", LEXEMES),
            ("SELECT FROM items_containing(%(id)s, 'word17')", LEXEMES),
            (
                "SELECT FROM items_with_facets(%(id)s, ARRAY[facet(%(id)s, '.group', '3')], '{}', NULL)",
                "items_facets_idx",
            ),
            ("SELECT FROM lexical_search(%(id)s, '', '{word17}', 10)", "term_statistics_collection_id_term_idx"),
        ):
            before = await _index_scans(connection)
            cursor = await connection.execute(statement, {"id": stored.collection_id})
            assert cursor.rowcount > 0
            after = await _index_scans(connection)
            assert after[index] > before[index], statement


@not_on_a_cluster("what a transaction scans is counted by the node")
@pytest.mark.asyncio(loop_scope="module")
async def test_filters_by_facets_read_only_the_table_of_vectors(corpus: Corpus) -> None:
    """Exact searches use the index of facets, walks the HNSW index; neither reads the table of items."""
    _, stored = await _open(corpus.large)
    assert stored.space is not None
    facets = f"{stored.space.table_name}_facets_idx"
    request = _request(stored, LegName.DENSE, Path.EXACT, group=3)
    by_count = replace(request, path=Path.APPROXIMATE, few=MANY)
    walked = replace(request, path=Path.APPROXIMATE, few=-1, reach=MANY)
    for variant, index in ((request, facets), (by_count, facets), (walked, _hnsw(stored))):
        scanned = await _scanned(corpus.large, variant, query="", vector=corpus.queries[0])
        assert scanned.pop(index) == 1
        assert not {"items_pkey", f"{stored.space.table_name}_pkey", facets, _hnsw(stored)} & scanned.keys()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_filter_that_many_surely_match_counts_nothing(corpus: Corpus) -> None:
    """The index knows the shares of common facets; each value of another facet has less than a twentieth."""
    _, stored = await _open(corpus.large)
    assert stored.ann_index is not None
    for where, least, most in (
        ({"status": "active"}, 1.0, 1.0),
        ({"group": 3}, 0.0, 0.05),
        ({"group": {"in": [3, 4]}}, 0.0, 0.1),
        ({"status": "active", "group": 3}, 0.0, 0.05),
    ):
        share = share_by_facets(stored, parse_where(where))
        assert share == (least, most)
        way = choose_way(stored, (LegName.DENSE,), depth=10, limit=10, is_filtered=True, by_facets=share)
        assert (way.few == -1) == (least == 1.0)
    assert share_by_facets(stored, parse_where({"group": {"lt": 3}})) is None
    assert share_by_facets(stored, None) is None


@pytest.mark.asyncio(loop_scope="module")
async def test_a_lexical_page_is_full_if_enough_items_match(corpus: Corpus) -> None:
    """A rare word together with a common one does not leave the page short."""
    collection, _ = await _open(corpus.large)
    hits = await collection.search("word17 common", legs=["lexical"], limit=1000)
    assert len(hits) == 1000
    assert hits[0].item_id == "000017"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("where", [{"group": 3}, {"group": [3, 7]}, {"group": {"lt": 20}}])
async def test_a_filtered_page_of_words_is_full_and_right_whether_few_match_or_many(
    corpus: Corpus, where: dict[str, Any]
) -> None:
    """Two words that all items or many hold: matches are counted to a number only, and the best of them are found."""
    _, stored = await _open(corpus.large)
    way = choose_way(stored, (LegName.LEXICAL,), depth=100, limit=100, is_filtered=True)
    lexical = replace(
        _request(stored, LegName.LEXICAL, way.path, **where), few=way.few, reach=way.reach, documents=stored.documents
    )
    each = [
        (await find_candidates(corpus.large.database, corpus.large.tenant_id, request, Query("common group7"))).rankings
        for request in (lexical, replace(lexical, path=Path.EXACT))
    ]
    page, true = ([candidate.score for candidate in rankings["lexical"]] for rankings in each)
    assert len(page) == 100
    assert page == pytest.approx(true, rel=1e-5)


@not_on_a_cluster("what a transaction scans is counted by the node")
@pytest.mark.asyncio(loop_scope="module")
async def test_an_approximate_search_walks_its_own_hnsw_index_and_an_exact_one_none(corpus: Corpus) -> None:
    """The statement takes the chosen path, whatever the planner would prefer."""
    _, stored = await _open(corpus.large)
    for vector in corpus.queries[:5]:
        request = _request(stored, LegName.DENSE, Path.APPROXIMATE)
        assert (await _scanned(corpus.large, request, query="", vector=vector)).get(_hnsw(stored)) == 1
        exact = replace(request, path=Path.EXACT)
        assert _hnsw(stored) not in await _scanned(corpus.large, exact, query="", vector=vector)
        filtered = _request(stored, LegName.DENSE, Path.EXACT, group=3)
        assert _hnsw(stored) not in await _scanned(corpus.large, filtered, query="", vector=vector)


@not_on_a_cluster("what a transaction scans is counted by the node")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_small_collection_never_walks_the_large_ones_index(corpus: Corpus) -> None:
    """Neither path of a small collection's search uses the large collection's index."""
    _, large = await _open(corpus.large)
    _, small = await _open(corpus.small)
    for path in (Path.EXACT, Path.APPROXIMATE):
        scanned = await _scanned(corpus.small, _request(small, LegName.DENSE, path), query="", vector=corpus.queries[0])
        assert _hnsw(large) not in scanned


@pytest.mark.asyncio(loop_scope="module")
async def test_the_approximate_search_finds_what_the_exact_one_finds(corpus: Corpus) -> None:
    """Recall at 10 is at least .99 against an exact run, and a page of 100 or 1000 is full."""
    collection, stored = await _open(corpus.large)
    hits_found = nearest = 0
    for vector in corpus.queries:
        page = await collection.search(vector=vector, limit=100, legs=["dense"])
        assert len(page) == 100
        request = _request(stored, LegName.DENSE, Path.EXACT)
        true = await find_candidates(corpus.large.database, corpus.large.tenant_id, request, Query(vector=vector))
        exact = {candidate.item_id for candidate in true.rankings["dense"][:10]}
        hits_found += len(exact & {hit.item_id for hit in page[:10]})
        nearest += 10
    assert hits_found / nearest >= 0.99
    assert len(await collection.search(vector=corpus.queries[0], limit=1000, legs=["dense"])) == 1000


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("where", [None, {"group": 3}])
async def test_a_search_by_words_and_vector_is_one_statement(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, where: dict[str, Any] | None
) -> None:
    """It finds the candidates of all legs and reads the texts of those that become hits, filtered or not."""
    collection, _ = await _open(corpus.large)
    statements: list[str] = []
    read_each = Database.read_each

    async def counted(self: Database, tenant_id: int | None, each: list[Any], *more: Any) -> list[Any]:
        statements.extend(statement.text for statement in each)
        return await read_each(self, tenant_id, each, *more)

    def refused(*_: object) -> None:
        raise AssertionError("a search needs no transaction of its own")

    monkeypatch.setattr(Database, "read_each", counted)
    monkeypatch.setattr(Database, "transaction", refused)
    # Each second a search reads the collection again, which this test does not count.
    monkeypatch.setattr("retrieval.engine.collection_handle.FRESH_SECONDS", math.inf)
    hits = await collection.search("common word3", vector=corpus.queries[0], where=where, limit=10)
    assert len(hits) == 10
    assert set(hits[0].explanation.as_dict()) >= {"contributions"}
    assert len(statements) == 1
    assert "lexical" in statements[0]
    assert "dense" in statements[0]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_filtered_page_is_full_and_right(corpus: Corpus) -> None:
    """A 2 % filter gives as many hits as requested, the nearest of the matching items."""
    collection, _ = await _open(corpus.large)
    hits = await collection.search(vector=corpus.queries[0], where={"group": 3}, limit=100)
    assert len(hits) == 100
    assert {hit.attributes["group"] for hit in hits} == {3}
    assert hits.path is Path.EXACT
    assert hits.weighed == MANY // 50


MANY_FILTERED = 10_000
TABLES = ("items", "item_tags", "attribute_values")
IDS = [f"{number:06}" for number in range(5_000)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(database_url: str) -> AsyncIterator[tuple[Platform, Collection]]:
    """10,000 items, of which each value of an attribute has 2 %."""
    settings = Settings(tenant="filter-plans", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=settings) as platform:
        collection = await platform.collection("docs", filterable={"group": "text", "hours": "number", "due": "time"})
        await collection.add(
            {
                "_id": f"{number:06}",
                "text": f"word{number}",
                "kind": f"k{number % 50}",
                "source": f"s{number % 50}",
                "tags": [f"t{number % 50}", "all"],
                "group": f"g{number % 50}",
                "hours": number % 1000,
                "due": f"2024-{1 + number % 12:02}-{1 + number % 28:02}",
            }
            for number in range(MANY_FILTERED)
        )
        async with platform.database.maintenance() as connection:
            for table in TABLES:
                await connection.execute(f"VACUUM (ANALYZE) {SCHEMA}.{table}".encode())
        yield platform, collection


async def _plan_filtered(
    platform: Platform, collection: Collection, where: dict[str, Any], limit: int | None
) -> list[str]:
    """The plan's lines about the schema's tables that hold items, run as the application role."""
    condition = parse_where(where)
    assert condition is not None
    stored = await collection.refresh()
    statement = compiled(matching(stored.collection_id, condition, stored.filterable).limit(limit))
    async with platform.database.transaction(platform.tenant_id) as connection:
        explain = f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {statement.text}"
        cursor = await connection.execute(explain.encode(), statement.parameters)
        return [without_shard(row[0]) for row in await cursor.fetchall()]


def _scans(plan: list[str]) -> dict[str, str]:
    """The scan of each table that holds items, by its index."""
    scans = [
        re.search(r"(\w[\w ]*Scan) using (\w+) on (\w+)", line) or re.search(r"(Seq Scan)() on (\w+)", line)
        for line in plan
    ]
    return {match[2] or match[3]: match[1] for match in scans if match and match[3] in TABLES}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("limit", [None, 5001])
@pytest.mark.parametrize(
    ("where", "index"),
    [
        ({"group": "g7"}, "attribute_values_by_text_idx"),
        ({"group": ["g7", "g8"]}, "attribute_values_by_text_idx"),
        ({"hours": {"gte": 100, "lt": 120}}, "attribute_values_by_number_idx"),
        ({"due": {"gte": "2024-12-01T12:00+02:00"}}, "attribute_values_by_time_idx"),
        ({"tags": "t7"}, "item_tags_pkey"),
        ({"kind": "k7"}, "items_collection_id_kind_item_id_idx"),
        ({"source": ["s7", "s8"]}, "items_collection_id_source_item_id_idx"),
        ({"group": "g7", "item_id": {"nin": IDS}}, "attribute_values_by_text_idx"),
    ],
)
async def test_one_index_alone_answers(
    opened: tuple[Platform, Collection], where: dict[str, Any], index: str, limit: int | None
) -> None:
    """An index-only scan; no item is read, with a limit above it or without."""
    assert _scans(await _plan_filtered(*opened, where, limit)) == {index: "Index Only Scan"}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "where",
    [
        {"group": "g7", "hours": {"lt": 500}},
        {"tags": {"all": ["t7", "all"]}},
        {"or": [{"group": "g7"}, {"tags": "t8"}]},
        {"group": "g7", "or": [{"hours": 7}, {"hours": {"gt": 900}}]},
    ],
)
async def test_several_indexes_answer_together(opened: tuple[Platform, Collection], where: dict[str, Any]) -> None:
    """Tags and attributes meet without a look at the items."""
    scans = _scans(await _plan_filtered(*opened, where, 5001))
    assert scans
    assert not [name for name in scans if name.startswith("items_")], scans


@pytest.mark.asyncio(loop_scope="module")
async def test_an_unindexed_condition_is_tested_only_on_items_found_by_an_index(
    opened: tuple[Platform, Collection],
) -> None:
    """Only the 10 items of 10,000 with that number are read."""
    plan = await _plan_filtered(*opened, {"hours": 7, "title": {"exists": False}}, 5001)
    scans = _scans(plan)
    assert scans == {"attribute_values_by_number_idx": "Index Only Scan", "items_pkey": "Index Scan"}
    looked_up = next(line for line in plan if "using items_pkey" in line)
    assert "loops=10)" in looked_up


@pytest.mark.asyncio(loop_scope="module")
async def test_thousands_of_ids_are_hashed_or_looked_up(opened: tuple[Platform, Collection]) -> None:
    """A list of 5,000 ids is not read for every item: requested ids are looked up, excluded ids are hashed."""
    plan = await _plan_filtered(*opened, {"item_id": IDS}, None)
    assert _scans(plan)
    assert not [line for line in plan if "= ANY ('{" in line and "Filter" in line]
    plan = await _plan_filtered(*opened, {"item_id": {"nin": IDS}}, None)
    assert [line for line in plan if "hashed SubPlan" in line and "NOT" in line]


MANY_LISTED = 150
NODES = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter", "Rows Removed by Index Recheck")


@pytest.fixture
async def fresh(new_database: NewDatabase, settings: Settings) -> AsyncIterator[Collection]:
    """Items with the same two tags, a moment after they came."""
    async with connect(new_database(), settings=settings) as platform:
        collection = await platform.collection("docs")
        await collection.add(
            {"_id": f"{n}", "text": "", "tags": ["t", "u"], "path": ["a", f"{n}"]} for n in range(MANY_LISTED)
        )
        await collection.refresh()
        yield collection


def _rows(node: dict[str, Any]) -> Iterator[float]:
    yield node["Actual Loops"] * sum(node.get(name, 0) for name in NODES)
    for child in node.get("Plans", ()):
        yield from _rows(child)


async def test_matching_items_are_found_once_and_not_for_each_item(
    fresh: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows that the statements touch grow with the items, and not with their square."""
    read_one = Database.read
    touched: list[float] = []

    async def explained(
        self: Database, tenant_id: int | None, statement: Compiled, settings: Mapping[str, str] = MappingProxyType({})
    ) -> list[Any]:
        explain = Compiled(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}", statement.parameters)
        [[plan]] = await read_one(self, tenant_id, explain, settings)
        touched.append(sum(_rows((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])))
        return await read_one(self, tenant_id, statement, settings)

    # On a slow machine the collection would be read again in between, which a cluster does not explain.
    monkeypatch.setattr(collection_handle, "FRESH_SECONDS", math.inf)
    monkeypatch.setattr(Database, "read", explained)
    for where in ({"tags": "t"}, {"tags": {"all": ["t", "u"]}}, {"tags": "t", "path": {"exists": True}}):
        assert len(await latest(handle_of(fresh), where, limit=MANY_LISTED)) == MANY_LISTED
        assert len(await paths(handle_of(fresh), "path", where=where, limit=MANY_LISTED)) == MANY_LISTED
        assert [count.items for count in await fresh.value_counts("tags", where=where)] == [MANY_LISTED, MANY_LISTED]

    assert len(touched) >= 9
    assert max(touched) < 30 * MANY_LISTED
