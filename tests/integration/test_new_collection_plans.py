"""A collection that has just grown, of which the planner knows nothing yet: no leg compares all with all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
import pytest
from psycopg import sql

from retrieval import Feedback, Platform
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.round_trip import Row
from tests.support.database import SCHEMA

MANY = 400


def _most_rows(plan: Mapping[str, Any]) -> float:
    """The most rows that one node of the plan looked at, all its loops together."""
    removed = [plan.get(f"Rows Removed by {what}", 0) for what in ("Filter", "Join Filter")]
    own: float = (plan["Actual Rows"] + sum(removed)) * plan["Actual Loops"]
    return max([own, *map(_most_rows, plan.get("Plans", []))])


async def _leave_unanalyzed(connection: psycopg.AsyncConnection[Any]) -> None:
    """Keep statistics from being gathered in the background meanwhile: then the planner would know something."""
    found = await connection.execute(
        "SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relkind = 'r'",
        (SCHEMA,),
    )
    for (name,) in await found.fetchall():
        table = sql.Identifier(SCHEMA, name)
        await connection.execute(sql.SQL("ALTER TABLE {} SET (autovacuum_enabled = off)").format(table))
    await connection.commit()


async def test_a_filter_on_verdicts_tags_and_kind_looks_at_each_item_a_few_times(
    platform: Platform, connection: psycopg.AsyncConnection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the planner knows nothing of the tables, the work grows with the items, not with their square."""
    collection = await platform.collection("lessons")
    await _leave_unanalyzed(connection)
    await collection.add(
        {"_id": f"{number}", "text": "timeout", "tags": ["sql"], "kind": "lesson"} for number in range(MANY)
    )
    verdicts = [
        Feedback(collection="lessons", item_id=f"{number}", helpful=number % 2 == 0) for number in range(0, MANY, 2)
    ]
    await platform.feedback_each(verdicts)
    seen: list[float] = []
    read_each = Database.read_each

    async def explained(
        self: Database, tenant: int | None, statements: Sequence[Compiled], settings: Mapping[str, str] | None = None
    ) -> list[list[Row]]:
        for one in statements:
            if "matching" in one.text:
                told = Compiled(f"EXPLAIN (ANALYZE, FORMAT JSON) {one.text}", one.parameters)
                [[(plan,)]] = await read_each(self, tenant, [told], settings)
                seen.append(_most_rows((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))
        return await read_each(self, tenant, statements, settings)

    monkeypatch.setattr(Database, "read_each", explained)
    where = {"kind": "lesson", "status": "active", "tags": ["sql"], "verdict_rating": {"gte": 0.3}}
    assert await collection.search("timeout", where=where)
    assert seen
    assert max(seen) <= 3 * MANY
