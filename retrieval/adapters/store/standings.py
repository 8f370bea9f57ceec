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
_COUNT = """
    SELECT coalesce(sum(known.uses), 0)::bigint FROM (
        SELECT a.uses FROM arms AS a
        WHERE a.collection_id = %(collection_id)s AND a.context = {bucket} AND a.uses > 0
        LIMIT %(most)s
    ) AS known
"""
# The index of the items by themselves is found by its condition as it stands.
_COUNT_ALL, _COUNT_IN = (Compiled(_COUNT.format(bucket=bucket)) for bucket in ("''", "%(bucket)s"))


async def read_standings(
    database: Database, tenant_id: int, collection_id: int, item_ids: Sequence[str]
) -> dict[str, Standing]:
    """The standings of those items that exist, by item id."""
    rows = await database.read(tenant_id, _READ.bind(collection_id=collection_id, item_ids=list(item_ids)))
    return {
        row[0]: Standing(item_id=row[0], created_at=row[1], uses=row[2], successes=row[3], last_used_at=row[4])
        for row in rows
    }


async def count_verdicts(
    database: Database, tenant_id: int, collection_id: int, *, bucket: str, at_most: int | None = None
) -> int:
    """How many verdicts count in a context bucket; ``at_most`` so many are counted, in as many arms."""
    statement = _COUNT_ALL if bucket == ANYWHERE else _COUNT_IN.bind(bucket=bucket)
    rows = await database.read(tenant_id, statement.bind(collection_id=collection_id, most=at_most))
    return int(rows[0][0]) if at_most is None else min(int(rows[0][0]), at_most)
