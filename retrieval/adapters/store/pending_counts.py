"""How many items of several collections wait for their vector: a statement for each space that they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from psycopg import sql

from retrieval.adapters.store.collections import StoredCollection
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.spaces import StoredSpace

_PENDING = """
    SELECT item.collection_id, count(*)
    FROM items AS item
    LEFT JOIN {table} AS done ON done.collection_id = item.collection_id AND done.item_id = item.item_id
    WHERE item.collection_id = ANY(%(ids)s) AND item.status <> 'archived'
        AND (done.item_id IS NULL OR done.content_hash <> item.text_hash)
    GROUP BY item.collection_id
"""


def pending_statements(collections: Iterable[StoredCollection]) -> list[Compiled]:
    """The statements that count; none for collections without a space."""
    ids: dict[StoredSpace, list[int]] = {}
    for one in collections:
        if one.space is not None:
            ids.setdefault(one.space, []).append(one.collection_id)
    return [
        Compiled(sql.SQL(_PENDING).format(table=sql.Identifier(space.table_name)).as_string(), {"ids": those})
        for space, those in ids.items()
    ]


def pending_by_id(answers: Iterable[Sequence[tuple[Any, ...]]]) -> dict[int, int]:
    """What the statements told, by collection; one where nothing waits is missing."""
    return {row[0]: int(row[1]) for rows in answers for row in rows}


async def count_pending_each(
    database: Database, tenant_id: int, collections: Sequence[StoredCollection]
) -> Mapping[int, int]:
    """How many items of each collection wait, by its number, in one round trip; one where nothing waits is missing."""
    statements = pending_statements(collections)
    return pending_by_id(await database.read_each(tenant_id, statements)) if statements else {}
