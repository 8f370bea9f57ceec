"""How arms decay, and how they are recounted from their events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database

_DECAY = Compiled("SELECT half_life_days, landmark FROM learning_state(%(id)s)")
_ITEMS = Compiled("""
    SELECT item_id FROM (
        (SELECT DISTINCT item_id FROM feedback WHERE collection_id = %(id)s AND item_id > %(after)s
         ORDER BY item_id LIMIT %(most)s)
        UNION
        (SELECT DISTINCT item_id FROM arms WHERE collection_id = %(id)s AND item_id > %(after)s
         ORDER BY item_id LIMIT %(most)s)
    ) AS known ORDER BY item_id LIMIT %(most)s
""")
_RECOUNT = "SELECT arms, mended FROM recount_arms(%s, %s, %s)"
_SET = "SELECT set_decay(%s, %s, %s, %s)"
_RETIRE = "SELECT retire_feedback(%s, %s, %s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decay:
    """How the events of a collection lose weight."""

    half_life_days: float
    landmark: datetime
    """The time whose events are stored with the weight 1."""


async def read_decay(database: Database, tenant_id: int, collection_id: int) -> Decay:
    """How the collection's events decay; the default where nobody said otherwise."""
    half_life_days, landmark = (await database.read(tenant_id, _DECAY.bind(id=collection_id)))[0]
    return Decay(half_life_days=half_life_days, landmark=landmark)


async def set_decay(database: Database, tenant_id: int, collection_id: int, decay: Decay, now: datetime) -> None:
    """Change it, and compute the collection's arms anew meanwhile; the tenant's feedback waits for that."""
    values = (collection_id, decay.half_life_days, decay.landmark, now)
    async with database.transaction(tenant_id) as connection:
        await connection.execute(_SET, values)


async def items_with_feedback(
    database: Database, tenant_id: int, collection_id: int, *, after: str, most: int
) -> list[str]:
    """The next items, in order, that have an event or an arm."""
    rows = await database.read(tenant_id, _ITEMS.bind(id=collection_id, after=after, most=most))
    return [row[0] for row in rows]


async def recount_arms(
    database: Database, tenant_id: int, collection_id: int, item_ids: Sequence[str], *, tolerance: float
) -> tuple[int, int]:
    """Compute the items' arms from their events, and mend what is off; gives how many there are, and how many were off.

    ``tolerance`` is of a decayed sum, relative to its arm.
    """
    async with database.transaction(tenant_id) as connection:
        cursor = await connection.execute(_RECOUNT, (collection_id, list(item_ids), tolerance))
        row = await cursor.fetchone()
    return (0, 0) if row is None else (int(row[0]), int(row[1]))


async def retire_feedback(
    database: Database, tenant_id: int, collection_id: int, item_ids: Sequence[str], *, received_before: datetime
) -> int:
    """Remove the items' events that were received before then; their arms stay as they are. Gives how many."""
    async with database.transaction(tenant_id) as connection:
        row = await (await connection.execute(_RETIRE, (collection_id, list(item_ids), received_before))).fetchone()
    return 0 if row is None else int(row[0])
