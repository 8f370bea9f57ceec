"""The legs of tags and of verdicts, and the filters on verdicts: their results, and the index that they use."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from retrieval import Collection, Platform, Settings, connect
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import LegResults, bound, find_candidates, settings
from retrieval.domain.search.profile import LegName
from tests.support.database import SCHEMA
from tests.support.filtering import found_both_ways
from tests.support.searching import leg_request, without_shard
from tests.support.tagged_items import Tagged, filled

SIZE, DEPTH = 12_000, 100
ITEMS = [Tagged(number) for number in range(SIZE)]
ACTIVE = [item for item in ITEMS if not item.is_archived]
FEW, MANY = {"group": ["g3"], "item_id": {"gte": "009000"}}, {"group": ["g3", "g4"]}
QUESTIONS = [("t7", "eleven"), ("all",), ("t7", "all", "none"), ("eleven", "all", "t3"), ("none",)]
Opened = tuple[Platform, Collection]
Wanted = Callable[[Tagged], bool]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(database_url: str) -> AsyncIterator[Opened]:
    """12,000 items, every third with verdicts."""
    own_settings = Settings(tenant="tag-legs", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=own_settings) as platform:
        yield platform, await filled(platform, "items", SIZE)


async def _request(collection: Collection, *legs: LegName, where: dict[str, Any]) -> CandidateRequest:
    return await leg_request(collection, *legs, depth=DEPTH, where=where)


async def _candidates(platform: Platform, request: CandidateRequest, *tags: str) -> LegResults:
    return await find_candidates(platform.database, platform.tenant_id, request, Query(tags=tags))


def _ids(leg_results: LegResults, leg: LegName) -> list[str]:
    return [candidate.item_id for candidate in leg_results.rankings[leg.value]]


def _among(where: dict[str, Any]) -> list[Tagged]:
    groups, since = where.get("group"), where.get("item_id", {}).get("gte", "")
    return [item for item in ACTIVE if (groups is None or item.group in groups) and item.item_id >= since]


def _best_tagged(among: list[Tagged], tags: tuple[str, ...]) -> list[str]:
    able = [item for item in among if item.tags & set(tags)]
    return [item.item_id for item in sorted(able, key=lambda item: (-len(item.tags & set(tags)), item.number))[:DEPTH]]


def _best_rated(among: list[Tagged]) -> list[str]:
    def key(item: Tagged) -> tuple[float, bool, int]:
        return -item.rating, not item.uses, item.number

    return [item.item_id for item in sorted(among, key=key)[:DEPTH]]


WHERES: list[dict[str, Any]] = [{}, MANY, FEW]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("tags", QUESTIONS)
@pytest.mark.parametrize("where", WHERES)
async def test_items_with_most_of_the_tags_come_first_then_the_latest_stored(
    opened: Opened, where: dict[str, Any], tags: tuple[str, ...]
) -> None:
    """Without a filter, with many matches and with few; also for tags that all items have."""
    platform, collection = opened
    leg_results = await _candidates(platform, await _request(collection, LegName.TAGGED, where=where), *tags)
    assert _ids(leg_results, LegName.TAGGED) == _best_tagged(_among(where), tags)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("where", WHERES)
async def test_the_best_rated_come_first(opened: Opened, where: dict[str, Any]) -> None:
    """Without a filter, with many matches and with few."""
    platform, collection = opened
    leg_results = await _candidates(platform, await _request(collection, LegName.RATED, where=where))
    assert _ids(leg_results, LegName.RATED) == _best_rated(_among(where))


@pytest.mark.asyncio(loop_scope="module")
async def test_a_walk_that_meets_too_few_is_followed_by_a_look_at_all_that_match(opened: Opened) -> None:
    """If what matches was all stored long ago, the page is full and right nevertheless."""
    platform, collection = opened
    where = {"item_id": {"gte": "010500"}}
    request = replace(await _request(collection, LegName.RATED, where=where), few=50, reach=200)
    leg_results = await _candidates(platform, request)
    assert leg_results.fell_short
    assert _ids(leg_results, LegName.RATED) == _best_rated(_among(where))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("where", [{}, {"verdict_rating": {"gt": 0.1}}, {"verdict_count": {"gte": 1}}])
async def test_another_tenant_sees_neither_the_tags_nor_the_verdicts(
    opened: Opened, database_url: str, where: dict[str, Any]
) -> None:
    """Another tenant that gives the collection's number gets no rows: the database's policies hide them."""
    _, collection = opened
    request = await _request(collection, LegName.TAGGED, LegName.RATED, where=where)
    own_settings = Settings(tenant="tag-legs-of-another", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=own_settings) as other:
        leg_results = await _candidates(other, request, "all", "t7")
    assert leg_results.rankings == {"tagged": [], "rated": []}


@pytest.mark.asyncio(loop_scope="module")
async def test_items_without_verdicts_stand_in_the_middle_the_latest_stored_first(database_url: str) -> None:
    """They rank below better items and above worse items."""
    own_settings = Settings(tenant="tag-legs", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=own_settings) as platform:
        collection = await filled(platform, "some", 90, judged_from=45)
        among = [Tagged(number, 45) for number in range(90)]
        leg_results = await _candidates(platform, await _request(collection, LegName.RATED, where={}))
        assert _ids(leg_results, LegName.RATED) == _best_rated(among)
        places = [
            item.uses > 0
            for item in sorted(among, key=lambda item: _ids(leg_results, LegName.RATED).index(item.item_id))
        ]
        first, last = places.index(False), len(places) - places[::-1].index(False)
        assert 0 < first < last < 90


@pytest.mark.asyncio(loop_scope="module")
async def test_the_best_rated_may_be_gone(database_url: str) -> None:
    """Deleted items keep their verdicts; the remaining items are found behind any number of them."""
    own_settings = Settings(tenant="tag-legs", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=own_settings) as platform:
        collection = await filled(platform, "gone", 90)
        best = _best_rated([Tagged(number) for number in range(90)])
        await collection.delete(best[:12])
        for where in ({}, {"verdict_count": {"gte": 1}}):
            request = replace(await _request(collection, LegName.RATED, where=where), depth=1, few=5)
            leg_results = await _candidates(platform, request)
            assert _ids(leg_results, LegName.RATED) == best[12:13]
            assert not leg_results.fell_short


async def _scans(platform: Platform, request: CandidateRequest, *tags: str) -> tuple[list[str], dict[str, int]]:
    """The plan's lines, and the most rows that a scan of each index gave at once, run as the application role."""
    statement = bound(request, Query(tags=tags))
    async with platform.database.transaction(platform.tenant_id) as connection:
        await platform.database.set_locally(connection, settings(request))
        explain = f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {statement.text}"
        cursor = await connection.execute(explain.encode(), statement.parameters)
        plan = [without_shard(row[0]) for row in await cursor.fetchall()]
    started = [line for line in plan if "never executed" not in line]
    matches = [re.search(r"Scan(?: Backward)? using (\w+) on.*rows=(\d+)", line) for line in started]
    rows = sorted((int(match[2]), match[1]) for match in matches if match)
    return plan, {index: most for most, index in rows}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("where", WHERES)
@pytest.mark.parametrize(
    ("leg", "tags", "index"),
    [
        (LegName.TAGGED, ("t7", "eleven"), "item_tags_pkey"),
        (LegName.TAGGED, ("all", "t7"), "item_tags_pkey"),
        (LegName.RATED, (), "arms_anywhere_idx"),
    ],
)
async def test_a_leg_walks_its_own_index_under_the_policies(
    opened: Opened, leg: LegName, tags: tuple[str, ...], index: str, where: dict[str, Any]
) -> None:
    """With a filter that many items match, and without one; no table is read as a whole.

    Few matches are looked up by key.
    """
    platform, collection = opened
    plan, scans = await _scans(platform, await _request(collection, leg, where=where), *tags)
    assert (scans.get(index, 0) > 1) == (where != FEW), plan
    assert not [line for line in plan if "Seq Scan on" in line and "Seq Scan on collections" not in line]
    row_counts = [int(match[1]) for line in plan if (match := re.search(r"Scan.* on (?:items|arms).*rows=(\d+)", line))]
    assert max(row_counts, default=0) <= 10_000, plan


VERDICTS: dict[str, tuple[dict[str, Any], Wanted]] = {
    "good": ({"verdict_rating": {"gt": 0.6}}, lambda item: item.rating > 0.6),
    "not bad": ({"verdict_rating": {"gte": 0.4}}, lambda item: item.rating >= 0.4),
    "bad": ({"verdict_rating": {"lt": 0.5}}, lambda item: item.rating < 0.5),
    "middle": ({"verdict_rating": 0.5}, lambda item: item.rating == 0.5),
    "not middle": ({"verdict_rating": {"ne": 0.5}}, lambda item: item.rating != 0.5),
    "some": ({"verdict_rating": [0.6, 0.25]}, lambda item: item.rating in {0.6, 0.25}),
    "none": ({"verdict_count": 0}, lambda item: item.uses == 0),
    "few": (
        {"verdict_count": {"lt": 3}, "verdict_rating": {"lte": 0.25}},
        lambda item: item.uses < 3 and item.rating <= 0.25,
    ),
    "many": ({"verdict_count": {"gte": 6}, "group": ["g3"]}, lambda item: item.uses >= 6 and item.group == "g3"),
    "either": (
        {"or": [{"verdict_count": 7}, {"verdict_rating": {"gt": 0.8}}]},
        lambda item: item.uses == 7 or item.rating > 0.8,
    ),
    "no": (
        {"not": {"or": [{"verdict_count": {"lt": 5}}, {"group": "g1"}]}},
        lambda item: item.uses >= 5 and item.group != "g1",
    ),
    "all": ({"verdict_count": {"exists": True}}, lambda _: True),
}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("kind", list(VERDICTS))
async def test_a_filter_knows_the_verdicts(opened: Opened, kind: str) -> None:
    """As keys that an index finds, and as a question about an item that was found; without verdicts: .5 and 0."""
    platform, collection = opened
    where, is_wanted = VERDICTS[kind]
    expected = [item.item_id for item in ACTIVE if is_wanted(item)]
    assert await found_both_ways(platform, await collection.refresh(), where) == [expected, expected]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("kind", ["good", "none", "few", "no"])
async def test_the_legs_keep_to_a_filter_on_verdicts(opened: Opened, kind: str) -> None:
    """The page is as full as it can be, whatever the filter leaves out; the same statement serves other values."""
    platform, collection = opened
    where, is_wanted = VERDICTS[kind]
    among = [item for item in ACTIVE if is_wanted(item)]
    leg_results = await _candidates(
        platform, await _request(collection, LegName.TAGGED, LegName.RATED, where=where), "all", "t7"
    )
    assert _ids(leg_results, LegName.TAGGED) == _best_tagged(among, ("all", "t7"))
    assert _ids(leg_results, LegName.RATED) == _best_rated(among)
