"""The answers of a session are found by an index, with any number of later records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from retrieval import Context, Platform
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Connection, Database
from retrieval.adapters.store.records.retrievals import answers_of
from retrieval.domain.records.slate import ShownItem
from tests.support.cluster import not_on_a_cluster
from tests.support.database import SCHEMA
from tests.support.searching import without_shard

OWN = 200
SINCE = 3_000

_MANY = """
    INSERT INTO retrievals
    SELECT (copy.one).* FROM (
        SELECT jsonb_populate_record(r, jsonb_build_object(
            'retrieval_id', gen_random_uuid(), 'retrieved_at', r.retrieved_at + number * interval '1 ms',
            'session', CASE WHEN number <= %s THEN 'old' ELSE 's' || mod(number, 100) END
        )) AS one
        FROM retrievals AS r CROSS JOIN generate_series(1, %s) AS number
        WHERE r.collection_id = %s
        OFFSET 0
    ) AS copy
    ON CONFLICT DO NOTHING
"""


class _Explaining:
    """Keeps the plans of its reads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.plan = ""

    async def read(self, _: int, statement: Compiled, _settings: Mapping[str, str]) -> list[Any]:
        explain = f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {statement.text}"
        cursor = await self._connection.execute(explain.encode(), statement.parameters)
        self.plan = "\n".join(without_shard(row[0]) for row in await cursor.fetchall())
        return []


@not_on_a_cluster("a node weighs its indexes otherwise, under a policy that is a function")
async def test_an_old_session_is_not_looked_for_among_all_that_came_since(platform: Platform) -> None:
    """The index finds the session's own answers, and no other record is read."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": "a", "text": "timeout"}])
    items = [ShownItem(item_id="a", score=1.0)]
    await collection.record_answer("q", items, origin="o", retrieval_time_ms=1, context=Context(session="old"))
    await platform.recorded()
    number = (await collection.refresh()).collection_id
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(_MANY, (OWN, SINCE, number))
    # The statistics may be of other tests' records, among which there was no such session.
    async with platform.database.maintenance() as connection:
        await connection.execute(f"ANALYZE {SCHEMA}.retrievals".encode())
    async with platform.database.transaction(platform.tenant_id) as connection:
        explaining = _Explaining(connection)
        await answers_of(
            CollectionPlace(cast(Database, explaining), platform.tenant_id, number), "old", origin=None, limit=20
        )
    row_counts = [int(rows) for rows in re.findall(r"Scan.* on retrievals.*rows=(\d+)", explaining.plan)]
    assert 0 < max(row_counts) <= 1 + OWN, explaining.plan
    # A month with few records of other tests may be read whole.
    removed = [int(rows) for rows in re.findall(r"Rows Removed by Filter: (\d+)", explaining.plan)]
    assert sum(removed) < OWN, explaining.plan
