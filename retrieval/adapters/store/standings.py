"""Items' verdicts as raw counts, and how many verdicts count in all."""

from __future__ import annotations

from collections.abc import Sequence

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.context import ANYWHERE
from retrieval.domain.standing import Standing

# Each item's arm is looked up by its key: a join may read all arms of a collection.
_READ = Compiled("""
    SELECT i.item_id, i.created_at, coalesce(a.uses, 0), coalesce(a.raw_successes, 0), a.last_used_at
    FROM items AS i
    LEFT JOIN LATERAL (
        SELECT known.uses, known.raw_successes, known.last_used_at FROM arms AS known
        WHERE known.collection_id = %(collection_id)s AND known.item_id = i.item_id AND known.context = %(anywhere)s
        LIMIT 1
    ) AS a ON true
    WHERE i.collection_id = %(collection_id)s AND i.item_id = ANY(%(item_ids)s)
""").bind(anywhere=ANYWHERE)
_COUNT = Compiled("""
    SELECT coalesce(sum(a.uses), 0)::bigint FROM arms AS a
    WHERE a.collection_id = %(collection_id)s AND a.context = %(bucket)s
""")


async def read_standings(
    database: Database, tenant_id: int, collection_id: int, item_ids: Sequence[str]
) -> dict[str, Standing]:
    """The standings of those items that exist, by item id."""
    rows = await database.read(tenant_id, _READ.bind(collection_id=collection_id, item_ids=list(item_ids)))
    return {
        row[0]: Standing(item_id=row[0], created_at=row[1], uses=row[2], successes=row[3], last_used_at=row[4])
        for row in rows
    }


async def count_verdicts(database: Database, tenant_id: int, collection_id: int, *, bucket: str) -> int:
    """How many verdicts count in a context bucket."""
    return int((await database.read(tenant_id, _COUNT.bind(collection_id=collection_id, bucket=bucket)))[0][0])
