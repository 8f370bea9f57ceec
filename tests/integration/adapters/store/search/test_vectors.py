"""The tables of vectors: the items that wait for theirs, and what the planner knows of them."""

from __future__ import annotations

import numpy as np

from retrieval import EmbeddingSpace, Platform
from retrieval.adapters.store.search.vectors import pending_statement
from tests.support.database import SCHEMA
from tests.support.searching import without_shard

SPACE = EmbeddingSpace(provider="test", model="waiting", dimensions=4)


async def test_a_page_looks_each_vector_up_by_its_key_in_a_collection_that_the_statistics_do_not_know(
    platform: Platform,
) -> None:
    """After a large load, a page would otherwise compare each item with each vector, for minutes."""
    known = await platform.collection("known", space=SPACE)
    await known.add([{"id": f"{n}"} for n in range(2000)], embeddings=np.ones((2000, 4)))
    stored = await known.refresh()
    assert stored.space is not None
    async with platform.database.maintenance() as connection:
        for table in ("items", stored.space.table_name):
            await connection.execute(f"ANALYZE {SCHEMA}.{table}".encode())
    fresh = await platform.collection("fresh", space=SPACE)
    await fresh.add([{"id": f"{n}", "text": "x"} for n in range(300)], embeddings=np.ones((300, 4)))
    collection_id = (await fresh.refresh()).collection_id
    statement = pending_statement(collection_id, stored.space, after="", limit=10)
    async with platform.database.transaction(platform.tenant_id) as connection:
        cursor = await connection.execute(f"EXPLAIN (COSTS OFF) {statement.text}".encode(), statement.parameters)
        plan = "\n".join([without_shard(row[0]) async for row in cursor])
    assert "Join Filter" not in plan, plan


async def test_no_statistics_are_gathered_of_columns_that_no_plan_depends_on(platform: Platform) -> None:
    """To gather them would double the time of an ANALYZE, after each load and whenever the server makes one."""
    stored = await (await platform.collection("docs", space=SPACE)).refresh()
    assert stored.space is not None
    tables = ["items", "item_terms", stored.space.table_name]
    async with platform.database.maintenance() as connection:
        found = await connection.rows(
            "SELECT c.relname, a.attname FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid "
            "WHERE a.attstattarget = 0 AND a.attnum > 0 AND c.relname = ANY (%s) "
            "AND c.relnamespace = to_regnamespace(%s)",
            (tables, SCHEMA),
        )
    assert set(found) == {
        ("items", "facets"),
        ("item_terms", "weights"), ("item_terms", "lexemes"), ("item_terms", "frequencies"),
        (stored.space.table_name, "vector"), (stored.space.table_name, "facets"),
    }  # fmt: skip
