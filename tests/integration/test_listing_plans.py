"""How much is read to list and to count, in a collection that nobody has gathered statistics of."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from retrieval import Collection, Settings, connect
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.collection import handle_of
from retrieval.engine.reading import latest, paths
from tests.conftest import NewDatabase

MANY = 150
NODES = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter", "Rows Removed by Index Recheck")


@pytest.fixture
async def fresh(new_database: NewDatabase, settings: Settings) -> AsyncIterator[Collection]:
    """Items with the same two tags, a moment after they came."""
    async with connect(new_database(), settings=settings) as platform:
        collection = await platform.collection("docs")
        await collection.add(
            {"_id": f"{n}", "text": "", "tags": ["t", "u"], "path": ["a", f"{n}"]} for n in range(MANY)
        )
        await collection.refresh()
        yield collection


def _rows(node: dict[str, Any]) -> Iterator[float]:
    yield node["Actual Loops"] * sum(node.get(name, 0) for name in NODES)
    for one in node.get("Plans", ()):
        yield from _rows(one)


async def test_matching_items_are_found_once_and_not_for_each_item(
    fresh: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows that the statements touch grow with the items, and not with their square."""
    read = Database.read
    touched: list[float] = []

    async def explained(self: Database, tenant_id: int | None, statement: Compiled) -> list[Any]:
        explain = Compiled(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}", statement.parameters)
        [[plan]] = await read(self, tenant_id, explain)
        touched.append(sum(_rows((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])))
        return await read(self, tenant_id, statement)

    monkeypatch.setattr(Database, "read", explained)
    for where in ({"tags": "t"}, {"tags": {"all": ["t", "u"]}}, {"tags": "t", "path": {"exists": True}}):
        assert len(await latest(handle_of(fresh), where, limit=MANY)) == MANY
        assert len(await paths(handle_of(fresh), "path", where=where, limit=MANY)) == MANY
        assert [one.items for one in await fresh.value_counts("tags", where=where)] == [MANY, MANY]

    assert len(touched) >= 9
    assert max(touched) < 30 * MANY
