"""How filters are answered: by which index, as the application role, under the policies."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from retrieval import Collection, Platform, Settings, connect
from retrieval.adapters.store.compiled import compiled
from retrieval.adapters.store.items.conditions import matching
from retrieval.domain.search.filters import parse_where
from tests.support.database import SCHEMA

MANY = 10_000
TABLES = ("items", "item_tags", "attribute_texts", "attribute_numbers", "attribute_times")
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
            for number in range(MANY)
        )
        async with platform.database.maintenance() as connection:
            for table in TABLES:
                await connection.execute(f"VACUUM (ANALYZE) {SCHEMA}.{table}".encode())
        yield platform, collection


async def _plan(platform: Platform, collection: Collection, where: dict[str, Any], limit: int | None) -> list[str]:
    """The plan's lines about the schema's tables that hold items, run as the application role."""
    wanted = parse_where(where)
    assert wanted is not None
    stored = await collection.refresh()
    statement = compiled(matching(stored.collection_id, wanted, stored.filterable).limit(limit))
    async with platform.database.transaction(platform.tenant_id) as connection:
        explain = f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {statement.text}"
        cursor = await connection.execute(explain.encode(), statement.parameters)
        return [row[0] for row in await cursor.fetchall()]


def _scans(plan: list[str]) -> dict[str, str]:
    """The scan of each table that holds items, by its index."""
    found = [
        re.search(r"(\w[\w ]*Scan) using (\w+) on (\w+)", line) or re.search(r"(Seq Scan)() on (\w+)", line)
        for line in plan
    ]
    return {one[2] or one[3]: one[1] for one in found if one and one[3] in TABLES}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("limit", [None, 5001])
@pytest.mark.parametrize(
    ("where", "index"),
    [
        ({"group": "g7"}, "attribute_texts_pkey"),
        ({"group": ["g7", "g8"]}, "attribute_texts_pkey"),
        ({"hours": {"gte": 100, "lt": 120}}, "attribute_numbers_pkey"),
        ({"due": {"gte": "2024-12-01T12:00+02:00"}}, "attribute_times_pkey"),
        ({"tags": "t7"}, "item_tags_pkey"),
        ({"kind": "k7"}, "items_collection_id_kind_item_id_idx"),
        ({"source": ["s7", "s8"]}, "items_collection_id_source_item_id_idx"),
        ({"group": "g7", "item_id": {"nin": IDS}}, "attribute_texts_pkey"),
    ],
)
async def test_one_index_alone_answers(
    opened: tuple[Platform, Collection], where: dict[str, Any], index: str, limit: int | None
) -> None:
    """An index-only scan; no item is read, with a limit above it or without."""
    assert _scans(await _plan(*opened, where, limit)) == {index: "Index Only Scan"}


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
    scans = _scans(await _plan(*opened, where, 5001))
    assert scans
    assert not [name for name in scans if name.startswith("items_")], scans


@pytest.mark.asyncio(loop_scope="module")
async def test_what_no_index_knows_is_asked_of_the_items_that_an_index_found(
    opened: tuple[Platform, Collection],
) -> None:
    """Of 10,000 items only the 10 with that number are read."""
    plan = await _plan(*opened, {"hours": 7, "title": {"exists": False}}, 5001)
    scans = _scans(plan)
    assert scans == {"attribute_numbers_pkey": "Index Only Scan", "items_pkey": "Index Scan"}
    looked_up = next(line for line in plan if "using items_pkey" in line)
    assert "loops=10)" in looked_up


@pytest.mark.asyncio(loop_scope="module")
async def test_thousands_of_ids_are_hashed_or_looked_up(opened: tuple[Platform, Collection]) -> None:
    """5,000 ids are no list to be read for every item: those wanted are looked up, those unwanted hashed."""
    plan = await _plan(*opened, {"item_id": IDS}, None)
    assert _scans(plan)
    assert not [line for line in plan if "= ANY ('{" in line and "Filter" in line]
    plan = await _plan(*opened, {"item_id": {"nin": IDS}}, None)
    assert [line for line in plan if "hashed SubPlan" in line and "NOT" in line]
