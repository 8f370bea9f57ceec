"""Collections that the planner's statistics do not know yet: statements about all items stay fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from retrieval import Platform
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collection_facts import collection_statuses
from tests.support.database import SCHEMA

ITEMS = [{"_id": f"i-{place}", "text": f"text {place}", "parity": place % 2} for place in range(300)]


async def test_no_item_is_compared_with_every_vector(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner takes all rows of a new collection for one; with nested loops, counting 40,000 items took minutes."""
    known = await platform.collection("known")
    await known.add(ITEMS)
    space = (await known.refresh()).space
    assert space is not None
    async with platform.database.maintenance() as connection:
        await connection.execute(f"ANALYZE {SCHEMA}.items, {SCHEMA}.{space.table_name}".encode())
    new = await platform.collection("new")
    await new.add(ITEMS)
    joining: list[tuple[Compiled, Mapping[str, str]]] = []
    run = Database._read  # noqa: SLF001 - it is what goes over the wire

    async def noting(
        self: Database, tenant_id: int | None, statements: Sequence[Compiled], settings: Mapping[str, str] | None
    ) -> Any:
        joining.extend((statement, settings or {}) for statement in statements if space.table_name in statement.text)
        return await run(self, tenant_id, statements, settings)

    monkeypatch.setattr(Database, "_read", noting)
    assert (await new.info()).pending == 0
    assert [count.vectors for count in await new.value_counts("parity")] == [150, 150]
    await collection_statuses(platform.database, platform.tenant_id, [await new.refresh()])
    monkeypatch.undo()
    assert len(joining) == 3
    for statement, settings in joining:
        explained = Compiled(f"EXPLAIN {statement.text}", statement.parameters)
        plan = "\n".join(row[0] for row in await platform.database.read(platform.tenant_id, explained, settings))
        assert "Nested Loop" not in plan
