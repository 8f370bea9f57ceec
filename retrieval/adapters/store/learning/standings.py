"""Items' verdicts as raw counts, and how many verdicts count in all."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from retrieval.adapters.store.compiled import Compiled, compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.conditions import matching
from retrieval.adapters.store.learning.ratings import anywhere
from retrieval.adapters.store.round_trip import Row
from retrieval.adapters.store.tables import arms, items
from retrieval.domain.learning.arm import Standing
from retrieval.domain.learning.context import ANYWHERE
from retrieval.domain.search.filters import Filter

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
_COLUMNS = ("uses", "raw_successes", "last_used_at")
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
    return {row[0]: _standing(row) for row in rows}


async def standings_matching(
    database: Database, tenant_id: int, collection: StoredCollection, wanted: Filter
) -> list[Standing]:
    """The standings of all items in use that the filter lets through, by item id; nothing else of them is read."""
    owner = collection.collection_id
    keys = matching(owner, wanted, collection.filterable, looks_up=True).cte("matching")
    mine = sa.select(*(arms.c[name] for name in _COLUMNS))
    mine = mine.where(anywhere(owner), arms.c.item_id == keys.c.item_id).limit(1)
    known = mine.lateral("known")
    is_it = sa.and_(items.c.collection_id == sa.literal_column(str(int(owner))), items.c.item_id == keys.c.item_id)
    one = sa.select(items.c.created_at).where(is_it).limit(1).lateral("stored")
    statement = (
        sa.select(keys.c.item_id, one.c.created_at, *(known.c[name] for name in _COLUMNS))
        .select_from(keys.join(one, sa.true()).outerjoin(known, sa.true()))
        .order_by(keys.c.item_id)
    )
    return [_standing(row) for row in await database.read(tenant_id, compiled(statement))]


def _standing(row: Row) -> Standing:
    item_id, created_at, uses, successes, last_used_at = row
    return Standing(
        item_id=item_id, created_at=created_at, uses=uses or 0, successes=successes or 0, last_used_at=last_used_at
    )


async def count_verdicts(
    database: Database, tenant_id: int, collection_id: int, *, bucket: str, at_most: int | None = None
) -> int:
    """How many verdicts count in a context bucket; ``at_most`` so many are counted, in as many arms."""
    statement = _COUNT_ALL if bucket == ANYWHERE else _COUNT_IN.bind(bucket=bucket)
    rows = await database.read(tenant_id, statement.bind(collection_id=collection_id, most=at_most))
    return int(rows[0][0]) if at_most is None else min(int(rows[0][0]), at_most)
