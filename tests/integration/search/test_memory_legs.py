"""The legs that an index orders, and the leg of links: their results, and the index that they use."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from retrieval import Collection, Platform, Profile, Settings, connect
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query, SignalWeights
from retrieval.adapters.store.search.candidates import LegResults, bound, find_candidates, settings
from retrieval.apps.memories import MemoryStore
from retrieval.apps.memories.requests import PROFILES
from retrieval.domain.search.profile import LegName
from tests.support.database import SCHEMA
from tests.support.filtering import found_both_ways
from tests.support.memories import NOW, Memory, filled
from tests.support.searching import leg_request, without_shard

SIZE, PROJECTS, DEPTH = 20_000, 10, 100
MEMORIES = [Memory(number, PROJECTS) for number in range(SIZE)]
ACTIVE = [memory for memory in MEMORIES if not memory.is_archived]
ENTITIES = (("questions", "q7"), ("users", "everybody"))
ORDERED = (LegName.RECENT, LegName.POPULAR, LegName.RELEVANT)
INDEXES = {
    LegName.RECENT: "items_collection_id_occurred_at_item_id_idx",
    LegName.POPULAR: "memories_by_accesses_idx",
    LegName.RELEVANT: "memories_by_relevance_idx",
    LegName.LINKED: "memory_links_by_entity_idx",
}
FEW, MANY = {"project_id": ["p3"], "item_id": {"gte": "015000"}}, {"project_id": ["p3", "p4"]}
Key = Callable[[Memory], Any]
KEYS: dict[LegName, Key] = {
    LegName.RECENT: lambda memory: -memory.number,
    LegName.POPULAR: lambda memory: (memory.accesses, -memory.number),
    LegName.RELEVANT: lambda memory: (memory.base_relevance, -memory.number),
    LegName.LINKED: lambda memory: (memory.question == "q7", -memory.number),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(database_url: str) -> AsyncIterator[tuple[Platform, Collection]]:
    """20,000 memories of 10 projects."""
    own_settings = Settings(tenant="memory-legs", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=own_settings) as platform:
        yield platform, await filled(platform, "memories", SIZE, PROJECTS)


async def _request(collection: Collection, *legs: LegName, **where: Any) -> CandidateRequest:
    return await leg_request(collection, *legs, depth=DEPTH, where=where)


async def _candidates(platform: Platform, request: CandidateRequest) -> LegResults:
    return await find_candidates(platform.database, platform.tenant_id, request, Query(entities=ENTITIES))


def _ids(leg_results: LegResults, leg: LegName) -> list[str]:
    return [candidate.item_id for candidate in leg_results.rankings[leg.value]]


def _best(leg: LegName, among: list[Memory], depth: int = DEPTH) -> list[str]:
    able = [memory for memory in among if memory.accesses or leg is not LegName.POPULAR]
    return [memory.item_id for memory in sorted(able, key=KEYS[leg], reverse=True)[:depth]]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("where", [{}, MANY, FEW, {**FEW, "item_id": {"gte": "019000"}}])
async def test_each_leg_brings_its_best_active_memories(
    opened: tuple[Platform, Collection], where: dict[str, Any]
) -> None:
    """In its order, the latest first among equals: of all, of the many that match, of the few that do."""
    platform, collection = opened
    projects = where.get("project_id", [f"p{number}" for number in range(PROJECTS)])
    since = where.get("item_id", {}).get("gte", "")
    among = [memory for memory in ACTIVE if memory.project in projects and memory.item_id >= since]
    leg_results = await _candidates(platform, await _request(collection, *KEYS, **where))
    for leg in KEYS:
        assert _ids(leg_results, leg) == _best(leg, among), leg


@pytest.mark.asyncio(loop_scope="module")
async def test_a_walk_that_meets_too_few_is_followed_by_a_look_at_all_that_match(
    opened: tuple[Platform, Collection],
) -> None:
    """If what matches is all at the far end of an order, the page is full and right nevertheless."""
    platform, collection = opened
    request = await _request(collection, *KEYS, item_id={"gte": "015000"})
    leg_results = await _candidates(platform, request)
    assert leg_results.fell_short
    for leg in KEYS:
        among = [memory for memory in ACTIVE if memory.number >= 15_000]
        assert _ids(leg_results, leg) == _best(leg, among), leg


async def _scans(platform: Platform, request: CandidateRequest) -> tuple[list[str], dict[str, str]]:
    """The plan's lines, and the scans in it by index, run as the application role."""
    statement = bound(request, Query(entities=ENTITIES, as_of=NOW, now=NOW))
    async with platform.database.transaction(platform.tenant_id) as connection:
        await platform.database.set_locally(connection, settings(request))
        explain = f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {statement.text}"
        cursor = await connection.execute(explain.encode(), statement.parameters)
        plan = [without_shard(row[0]) for row in await cursor.fetchall()]
    started = [line for line in plan if "never executed" not in line]
    matches = [re.search(r"(\w[\w ]*Scan)(?: Backward)? using (\w+) on", line) for line in started]
    return plan, {match[2]: match[1] for match in matches if match}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("where", [{}, MANY])
@pytest.mark.parametrize("leg", list(KEYS))
async def test_a_leg_walks_its_own_index_under_the_policies(
    opened: tuple[Platform, Collection], leg: LegName, where: dict[str, Any]
) -> None:
    """With a filter that many items match, and without one; no table is read as a whole."""
    platform, collection = opened
    plan, scans = await _scans(platform, await _request(collection, leg, **where))
    assert INDEXES[leg] in scans, plan
    assert not _whole(plan)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("leg", ORDERED)
async def test_the_few_that_match_are_looked_up_by_their_keys(
    opened: tuple[Platform, Collection], leg: LegName
) -> None:
    """The matches are found in their own index, without walking an order."""
    platform, collection = opened
    plan, scans = await _scans(platform, await _request(collection, leg, **FEW))
    assert scans["attribute_values_by_text_idx"] == "Index Only Scan"
    assert INDEXES[leg] not in scans, plan
    assert not _whole(plan)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("where", [{}, MANY, FEW])
async def test_walking_each_order_finds_the_best_by_stored_signals(
    opened: tuple[Platform, Collection], where: dict[str, Any]
) -> None:
    """The best by stored signals equal those of comparing all; the orders are walked, and no table is scanned."""
    platform, collection = opened
    weights = SignalWeights(relevance=0.4, recency=0.3, decay_days=1.0, use=0.3, stride=2000)
    request = replace(await _request(collection, *ORDERED, **where), depth=400, enough=100, signal_weights=weights)
    query = Query(as_of=NOW, now=NOW)

    leg_results = await find_candidates(platform.database, platform.tenant_id, request, query)

    item_ids = {candidate.item_id for candidates in leg_results.rankings.values() for candidate in candidates}
    is_match = condition_of(where)
    best = sorted((memory for memory in ACTIVE if is_match(memory)), key=_stands, reverse=True)
    assert {memory.item_id for memory in best[:20]} <= item_ids
    assert 100 <= len(item_ids) <= 200
    plan, used = await _scans(platform, request)
    assert not _whole(plan)
    if where != FEW:
        assert {"memories_by_time_idx", "memories_by_accesses_idx", "memories_by_relevance_idx"} <= set(used)


def _stands(memory: Memory) -> float:
    use = min(1.0, math.log(memory.accesses + 1) / math.log(101))
    return 0.4 * memory.base_relevance + 0.3 * math.exp(-memory.number / 1440) + 0.3 * use


def condition_of(where: dict[str, Any]) -> Callable[[Memory], bool]:
    """Whether a memory passes one of this module's filters."""
    least = where.get("item_id", {}).get("gte", "")
    projects = where.get("project_id")
    return lambda memory: memory.item_id >= least and (projects is None or memory.project in projects)


def _whole(plan: list[str]) -> list[str]:
    return [line for line in plan if "Seq Scan on" in line and "Seq Scan on collections" not in line]


_FIRST = set(range(20))
LINKED: dict[str, tuple[dict[str, Any], Callable[[Memory], bool]]] = {
    "one": ({"links": "questions:q7"}, lambda memory: memory.question == "q7"),
    "any": ({"links": ["questions:q7", "questions:q8", "users:nobody"]},
            lambda memory: memory.question in {"q7", "q8"}),
    "no pair": ({"links": ["questions:everybody", "users:q7"]}, lambda _: False),
    "all": ({"links": {"all": ["questions:q7", "users:everybody"]}}, lambda memory: memory.question == "q7"),
    "not": ({"not": {"links": "questions:q7"}, "item_id": {"lt": "000020"}},
            lambda memory: memory.number in _FIRST - {7}),
    "some": ({"links": {"exists": True}, "item_id": {"lt": "000020"}}, lambda memory: memory.number in _FIRST),
    "none": ({"links": None}, lambda _: False),
    "either": ({"or": [{"links": "questions:q7"}, {"project_id": "p3"}]},
               lambda memory: memory.question == "q7" or memory.project == "p3"),
    "and": ({"links": "questions:q13", "project_id": "p3"}, lambda memory: memory.question == "q13"),
}  # fmt: skip


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("kind", list(LINKED))
async def test_a_filter_knows_the_links_of_active_memories(opened: tuple[Platform, Collection], kind: str) -> None:
    """As keys that an index finds, and as a question about an item that was found."""
    platform, collection = opened
    where, is_wanted = LINKED[kind]
    expected = [memory.item_id for memory in ACTIVE if is_wanted(memory)]
    assert await found_both_ways(platform, await collection.refresh(), where) == [expected, expected]


@pytest.mark.asyncio(loop_scope="module")
async def test_expired_memories_are_neither_popular_nor_relevant(opened: tuple[Platform, Collection]) -> None:
    """The clock decides, whatever ``as_of`` is; without a clock expired memories are found."""
    platform, collection = opened
    request = await _request(collection, LegName.POPULAR, LegName.RELEVANT)
    first = {leg: _best(leg, ACTIVE)[0] for leg in (LegName.POPULAR, LegName.RELEVANT)}
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(
            "UPDATE memories SET expires_at = %s WHERE collection_id = %s AND item_id = ANY(%s)",
            (NOW, request.collection_id, list(first.values())),
        )
    past = NOW - timedelta(seconds=1)
    for now, is_there in ((past, True), (NOW, False), (None, True)):
        candidates = await find_candidates(platform.database, platform.tenant_id, request, Query(as_of=past, now=now))
        assert {leg: item_id in _ids(candidates, leg) for leg, item_id in first.items()} == dict.fromkeys(
            first, is_there
        )


@pytest.fixture
async def memories(platform: Platform) -> Collection:
    """150 that have expired, and 20 that match no better and happened earlier."""
    now = platform.now
    await MemoryStore(platform).store_memories(
        {
            "memory_id": f"x{n:03}" if n < 150 else f"g{n:03}",
            "project_id": "p",
            "interaction_type": "note",
            "content": "alpha beta" if n < 150 else "alpha beta gamma delta",
            "occurred_at": now - timedelta(days=2, minutes=n),
            "expires_at": now - timedelta(days=1) if n < 150 else now + timedelta(days=1),
        }
        for n in range(170)
    )
    return await platform.collection("memories", create=False)


@pytest.mark.parametrize(
    "profile",
    [
        PROFILES["recency"],
        PROFILES["keyword"],
        Profile(),
        Profile(legs={"lexical": 1.0}),
        Profile(legs={"recent": 1.0}),
    ],
    ids=["recency", "keyword", "fused", "lexical", "recent"],
)
async def test_a_page_is_full_of_what_has_not_expired(memories: Collection, profile: Profile) -> None:
    """The legs read more candidates if expired memories displace some, for any profile and each query of a call."""
    [first, other] = await memories.search_each(["alpha beta", "beta"], profile=profile, limit=10)
    for result in (first, other, await memories.search("alpha beta", profile=profile, where={"project_id": "p"})):
        assert [hit.item_id[0] for hit in result] == ["g"] * 10


async def test_expired_memories_are_not_found_as_of_an_earlier_time(memories: Collection, platform: Platform) -> None:
    """The clock decides, not ``as_of``."""
    then = platform.now - timedelta(days=1, minutes=1)
    hits = await memories.search("alpha beta", profile=Profile(legs={"lexical": 1.0}), as_of=then)
    assert [hit.item_id[0] for hit in hits] == ["g"] * 10


@pytest.mark.parametrize("where", [None, {"n": 1}])
async def test_items_of_one_time_are_in_the_order_of_their_keys(
    platform: Platform, where: dict[str, Any] | None
) -> None:
    """Whatever the limit, and on every page."""
    notes = await platform.collection("notes")
    await notes.add([{"id": name, "text": "x", "occurred_at": "2024-05-01", "n": 1} for name in "abcde"])
    for limit in (1, 2, 5):
        found = await notes.search(legs=["recent"], limit=limit, where=where)
        assert [hit.id for hit in found] == list("abcde")[:limit]
    first = await notes.search(legs=["recent"], limit=2, where=where, after="")
    second = await notes.search(legs=["recent"], limit=2, where=where, after=first.next)
    assert [hit.id for hit in (*first, *second)] == list("abcd")
