"""Items as they are stored: compared, written, archived, read, and held while a writer decides what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from psycopg.types.json import Jsonb

from retrieval.adapters.store.compiled import Compiled, compiled
from retrieval.adapters.store.database import Connection, Database
from retrieval.adapters.store.installed_sql import quote_identifier
from retrieval.adapters.store.items.conditions import HIT_COLUMNS
from retrieval.adapters.store.search.vectors import table_of
from retrieval.adapters.store.tables import items
from retrieval.domain.item import Item, text_hash
from retrieval.domain.stored_item import StoredItem, version_of

ARCHIVED = "archived"

BULK_ITEMS = 200
"""From so many items on, what is written at once is written in bulk."""

_WAITING, _WAITING_IN_BULK = "256kB", "2MB"
"""How much may wait for the lexical index. Every search reads through it; the less there is, the dearer is a write."""

_STAGE = """
    CREATE TEMPORARY TABLE staged_items (
        item_id text COLLATE "C", kind text, title text, body text, tags text[], attributes jsonb,
        status text, source text, occurred_at timestamptz, content_hash bytea, text_hash bytea
    ) ON COMMIT DROP
"""
_STAGE_COPY = "COPY staged_items FROM STDIN (FORMAT binary)"
# fmt: off
_STAGE_TYPES = (
    "text", "text", "text", "text", "text[]", "jsonb", "text", "text", "timestamptz", "bytea", "bytea",
)
# fmt: on
_INSERT = """
    INSERT INTO items (collection_id, item_id, kind, title, body, tags, attributes, status, source, occurred_at,
                       content_hash, text_hash)
    SELECT %s, item_id, kind, title, body, tags, attributes, status, source, occurred_at, content_hash, text_hash
    FROM staged_items
    ORDER BY item_id
    ON CONFLICT (collection_id, item_id) DO """
_MERGE = f"""{_INSERT} UPDATE SET
        kind = excluded.kind, title = excluded.title, body = excluded.body, tags = excluded.tags,
        attributes = excluded.attributes, status = excluded.status, source = excluded.source,
        occurred_at = excluded.occurred_at, content_hash = excluded.content_hash, text_hash = excluded.text_hash,
        updated_at = now()
"""
_INSERT_NEW = f"{_INSERT} NOTHING RETURNING item_id"
_KNOW_ATTRIBUTES = """
    INSERT INTO collection_attributes AS known (collection_id, name, types)
    SELECT %(id)s, entry.key, array_agg(DISTINCT jsonb_typeof(entry.value) ORDER BY jsonb_typeof(entry.value))
    FROM staged_items, jsonb_each(attributes) AS entry
    -- What is known needs no lock, which all writers of a collection would wait for.
    WHERE NOT EXISTS (
        SELECT FROM collection_attributes AS seen
        WHERE seen.collection_id = %(id)s AND seen.name = entry.key COLLATE "C"
            AND jsonb_typeof(entry.value) = ANY (seen.types)
    )
    GROUP BY entry.key
    ORDER BY entry.key COLLATE "C"
    ON CONFLICT (collection_id, name) DO UPDATE SET
        types = (SELECT array_agg(DISTINCT one ORDER BY one) FROM unnest(known.types || excluded.types) AS one)
    WHERE NOT known.types @> excluded.types
"""
_KNOW_ATTRIBUTES_OF = _KNOW_ATTRIBUTES.replace(
    "staged_items", "(SELECT attributes FROM items WHERE collection_id = %(id)s AND item_id = ANY(%(ids)s)) AS written"
)


@dataclass(frozen=True, slots=True)
class StoredHashes:
    """What is known of a stored item: enough to tell what a new version of it changes."""

    content_hash: bytes
    text_hash: bytes


async def stored_hashes(
    database: Database, tenant_id: int, collection_id: int, item_ids: Sequence[str]
) -> dict[str, StoredHashes]:
    """The hashes of those items that are stored, by item id."""
    statement = Compiled(
        "SELECT item_id, content_hash, text_hash FROM items "
        "WHERE collection_id = %(collection_id)s AND item_id = ANY(%(item_ids)s)",
        {"collection_id": collection_id, "item_ids": list(item_ids)},
    )
    return {row[0]: StoredHashes(row[1], row[2]) for row in await database.read(tenant_id, statement)}


async def known_hashes(connection: Connection, collection_id: int, item_ids: Sequence[str]) -> dict[str, bytes]:
    """The content hashes of those items that are stored, as a transaction sees them."""
    cursor = await connection.execute(
        "SELECT item_id, content_hash FROM items WHERE collection_id = %s AND item_id = ANY(%s)",
        (collection_id, list(item_ids)),
    )
    return {row[0]: bytes(row[1]) for row in await cursor.fetchall()}


async def write_items(connection: Connection, collection_id: int, batch: Sequence[Item]) -> None:
    """Store the items, new ones and new versions, with their terms and statistics. Item ids must not repeat."""
    await _stage(connection, batch)
    await connection.execute(_MERGE, (collection_id,))
    await _index(connection, collection_id, batch)


async def write_new_items(connection: Connection, collection_id: int, batch: Sequence[Item]) -> set[str]:
    """Store items that are not there yet; gives the ids of those that are: then the transaction is not to be committed.

    Whoever stores the same id at the same moment is waited for. Item ids must not repeat.
    """
    await _stage(connection, batch)
    cursor = await connection.execute(_INSERT_NEW, (collection_id,))
    known = {item.item_id for item in batch} - {row[0] for row in await cursor.fetchall()}
    if not known:
        await _index(connection, collection_id, batch)
    return known


async def _stage(connection: Connection, batch: Sequence[Item]) -> None:
    await connection.execute(_STAGE)
    async with connection.cursor().copy(_STAGE_COPY) as copy:
        copy.set_types(_STAGE_TYPES)
        for item in batch:
            await copy.write_row(_staged(item))


async def _index(connection: Connection, collection_id: int, batch: Sequence[Item]) -> None:
    await connection.execute(_KNOW_ATTRIBUTES, {"id": collection_id})
    ids = [item.item_id for item in batch]
    await index_terms(connection, collection_id, ids)
    await index_attributes(connection, collection_id, ids)


async def know_attributes(connection: Connection, collection_id: int, item_ids: Sequence[str]) -> None:
    """Keep what attributes these stored items have, and of which types."""
    await connection.execute(_KNOW_ATTRIBUTES_OF, {"id": collection_id, "ids": list(item_ids)})


async def index_terms(connection: Connection, collection_id: int, item_ids: Sequence[str]) -> None:
    """Bring the lexical index of these items up to date (``sql/search/lexical_index.sql``)."""
    waiting = _WAITING_IN_BULK if len(item_ids) >= BULK_ITEMS else _WAITING
    await connection.execute("SELECT set_config('gin_pending_list_limit', %s, true)", (waiting,))
    await connection.execute("SELECT index_terms(%s, %s)", (collection_id, list(item_ids)))


async def flush_terms(connection: Connection, schema: str) -> None:
    """Put what waits into the lexical index. The connection's login must own it."""
    index = sql.SQL("SELECT gin_clean_pending_list({}::regclass)")
    await connection.execute(index.format(sql.Literal(f"{quote_identifier(schema)}.item_terms_lexemes_idx")))


async def index_attributes(connection: Connection, collection_id: int, item_ids: Sequence[str] | None) -> None:
    """Bring the tags and declared attributes of these items (None: of all) up to date (``sql/items/attributes.sql``).

    After ``index_terms``, whose lock it needs: what is declared then is all that these items must be indexed by.
    """
    ids = None if item_ids is None else list(item_ids)
    await connection.execute("SELECT index_attributes(%s, %s::text[])", (collection_id, ids))


async def item_ids_after(connection: Connection, collection_id: int, after: str, limit: int) -> list[str]:
    """The next active items' ids in order: a page of a walk over the collection."""
    cursor = await connection.execute(
        "SELECT item_id FROM items WHERE collection_id = %s AND item_id > %s AND status <> %s "
        "ORDER BY item_id LIMIT %s",
        (collection_id, after, ARCHIVED, limit),
    )
    return [row[0] for row in await cursor.fetchall()]


async def archive_items(connection: Connection, collection_id: int, table_names: Iterable[str], ids: list[str]) -> None:
    """Keep the items and let no search find them. ``table_names`` are those of their embeddings."""
    held = await _hold(connection, collection_id, ids)
    # The content hash goes, so that the same content given again makes the item active again.
    await connection.execute(
        "UPDATE items SET status = %s, content_hash = '', updated_at = now() "
        "WHERE collection_id = %s AND item_id = ANY(%s)",
        (ARCHIVED, collection_id, held),
    )
    await index_terms(connection, collection_id, held)
    await index_attributes(connection, collection_id, held)
    for name in table_names:
        await remove_embeddings(connection, name, collection_id, held)


async def remove_embeddings(connection: Connection, table_name: str, collection_id: int, ids: list[str]) -> None:
    """Take the items' vectors out of a space."""
    table = sa.table(table_name, sa.column("collection_id"), sa.column("item_id"))
    statement = compiled(
        sa.delete(table).where(
            table.c.collection_id == sa.literal_column(str(int(collection_id))),
            table.c.item_id == sa.func.any(sa.bindparam("ids", type_=sa.types.NullType())),
        )
    )
    await connection.execute(statement.text, {**statement.parameters, "ids": ids})


async def delete_items(connection: Connection, collection_id: int, ids: list[str]) -> int:
    """Remove the items with their terms and vectors; gives how many there were."""
    held = await _hold(connection, collection_id, ids)
    # First out of the statistics, which count what item_terms holds.
    await connection.execute(
        "UPDATE items SET status = %s WHERE collection_id = %s AND item_id = ANY(%s)", (ARCHIVED, collection_id, held)
    )
    await index_terms(connection, collection_id, held)
    cursor = await connection.execute(
        "DELETE FROM items WHERE collection_id = %s AND item_id = ANY(%s)", (collection_id, held)
    )
    return cursor.rowcount


async def _hold(connection: Connection, collection_id: int, ids: list[str]) -> list[str]:
    """Lock the items in the order in which everybody does, so that two writers cannot wait for each other.

    Gives the ids of those that exist: one that another writer adds a moment later is not this transaction's to touch.
    """
    cursor = await connection.execute(
        "SELECT item_id FROM items WHERE collection_id = %s AND item_id = ANY(%s) ORDER BY item_id FOR NO KEY UPDATE",
        (collection_id, ids),
    )
    return [row[0] for row in await cursor.fetchall()]


ITEM_COLUMNS = ("item_id", "kind", "title", "body", "tags", "attributes", "status", "source", "occurred_at")
"""What is read of an item, in this order."""

_READ = Compiled(
    f"SELECT {', '.join(ITEM_COLUMNS)} FROM items "  # noqa: S608 - of the names above
    "WHERE collection_id = %(collection_id)s AND item_id = ANY(%(item_ids)s)"
)


async def read_items(
    database: Database, tenant_id: int, collection_id: int, item_ids: Sequence[str]
) -> dict[str, Item]:
    """The items of those ids that exist, by item id."""
    statement = _READ.bind(collection_id=collection_id, item_ids=list(item_ids))
    return {row[0]: item_from_row(row) for row in await database.read(tenant_id, statement)}


_READ_HITS = compiled(
    sa.select(items.c.item_id, *(items.c[name] for name in HIT_COLUMNS)).where(
        items.c.collection_id == sa.bindparam("collection_id", type_=sa.BigInteger),
        items.c.item_id == sa.func.any(sa.bindparam("item_ids", type_=sa.types.NullType())),
    )
)


async def read_hit_rows(
    database: Database, tenant_id: int, collection_id: int, item_ids: Sequence[str]
) -> dict[str, tuple[Any, ...]]:
    """The columns of a hit (``HIT_COLUMNS``) of those items that exist, by item id."""
    statement = _READ_HITS.bind(collection_id=collection_id, item_ids=list(item_ids))
    return {row[0]: row[1:] for row in await database.read(tenant_id, statement)}


def item_from_row(row: tuple[Any, ...]) -> Item:
    """The item whose ``ITEM_COLUMNS`` were read."""
    return Item.as_stored(**dict(zip(ITEM_COLUMNS, row, strict=True)))


def _staged(item: Item) -> tuple[Any, ...]:
    attributes: Mapping[str, Any] = dict(item.attributes)
    return (
        *(item.item_id, item.kind, item.title, item.body, list(item.tags), Jsonb(attributes), item.status),
        *(item.source, item.occurred_at, item.content_hash, text_hash(item.text)),
    )


_READ_STATES = Compiled("""
    SELECT i.item_id, i.created_at, i.updated_at, i.status <> 'archived' FROM items i
    WHERE i.collection_id = %(collection_id)s AND i.item_id = ANY(%(item_ids)s)
""")


@dataclass(frozen=True, slots=True)
class ItemState:
    """An item as it stands today."""

    created_at: datetime
    updated_at: datetime
    is_active: bool = True
    """Whether searches find it."""


async def read_item_states(
    database: Database, tenant_id: int, collection_id: int, item_ids: Sequence[str]
) -> dict[str, ItemState]:
    """The states of those items that exist, by item id."""
    statement = _READ_STATES.bind(collection_id=collection_id, item_ids=list(item_ids))
    return {row[0]: ItemState(*row[1:]) for row in await database.read(tenant_id, statement)}


STORED_COLUMNS = (*ITEM_COLUMNS, "created_at", "updated_at", "content_hash")
"""What is read of an item with its version, in this order."""

_READ_VERSIONS = Compiled(
    f"SELECT {', '.join(STORED_COLUMNS)} FROM items "  # noqa: S608 - of the names above
    "WHERE collection_id = %(collection_id)s AND item_id = ANY(%(item_ids)s)"
)
_HELD = (
    f"SELECT {', '.join(STORED_COLUMNS)} FROM items "  # noqa: S608 - of the names above
    "WHERE collection_id = %s AND item_id = %s FOR NO KEY UPDATE"
)


async def read_stored(
    database: Database, tenant_id: int, collection_id: int, item_ids: Sequence[str]
) -> dict[str, StoredItem]:
    """The items of those ids that exist, by item id."""
    statement = _READ_VERSIONS.bind(collection_id=collection_id, item_ids=list(item_ids))
    return {row[0]: stored_from_row(row) for row in await database.read(tenant_id, statement)}


async def hold_item(connection: Connection, collection_id: int, item_id: str) -> tuple[StoredItem, bytes] | None:
    """The item and its content hash, which nobody else changes before the transaction ends; None where it is not."""
    row = await (await connection.execute(_HELD, (collection_id, item_id))).fetchone()
    return None if row is None else (stored_from_row(row), bytes(row[-1]))


def stored_from_row(row: tuple[Any, ...]) -> StoredItem:
    """The item whose ``STORED_COLUMNS`` were read."""
    created_at, updated_at, content_hash = row[len(ITEM_COLUMNS) :]
    return StoredItem(
        item=item_from_row(row[: len(ITEM_COLUMNS)]),
        version=version_of(bytes(content_hash), updated_at),
        created_at=created_at,
        updated_at=updated_at,
    )


# In the order in which every writer locks them, so that no two wait for each other.
_HOLD = (
    f"SELECT {', '.join(ITEM_COLUMNS)} FROM items "  # noqa: S608 - of names that are the code's own
    "WHERE collection_id = %s AND item_id = ANY(%s) ORDER BY item_id FOR NO KEY UPDATE"
)
_SET_ATTRIBUTES = """
    UPDATE items SET attributes = fresh.attributes, content_hash = fresh.content_hash
    FROM unnest(%(ids)s::text[], %(attributes)s::jsonb[], %(hashes)s::bytea[])
        AS fresh (item_id, attributes, content_hash)
    WHERE items.collection_id = %(id)s AND items.item_id = fresh.item_id
"""
# A declaration that comes meanwhile waits for this transaction, and then indexes what it wrote.
_DECLARED = """
    SELECT filterable IS NOT NULL FROM collection_attributes
    WHERE collection_id = %s AND name = ANY(%s) ORDER BY name COLLATE "C" FOR SHARE
"""


async def hold_items(connection: Connection, collection_id: int, item_ids: Sequence[str]) -> dict[str, Item]:
    """Those of the items that exist, by item id; nobody else changes them before the transaction ends."""
    cursor = await connection.execute(_HOLD, (collection_id, list(item_ids)))
    return {row[0]: item_from_row(row) for row in await cursor.fetchall()}


async def write_attributes(connection: Connection, collection_id: int, changed: Sequence[Item]) -> None:
    """Store the attributes of items that are held; nothing else of them is written, ``updated_at`` neither."""
    ids = [item.item_id for item in changed]
    values = {
        "id": collection_id,
        "ids": ids,
        "attributes": [Jsonb(dict(item.attributes)) for item in changed],
        "hashes": [item.content_hash for item in changed],
    }
    await connection.execute(_SET_ATTRIBUTES, values)
    await know_attributes(connection, collection_id, ids)
    names = sorted({name for item in changed for name in item.attributes})
    declared = await (await connection.execute(_DECLARED, (collection_id, names))).fetchall()
    if any(row[0] for row in declared):
        await index_attributes(connection, collection_id, ids)


_HELD_STATUS = (
    f"SELECT {', '.join(ITEM_COLUMNS)} FROM items "  # noqa: S608 - of names that are the code's own
    "WHERE collection_id = %s AND item_id = %s FOR NO KEY UPDATE"
)

_SPACE = "SELECT space_id FROM collections WHERE collection_id = %s"


async def change_status(
    connection: Connection,
    collection_id: int,
    item_id: str,
    status: str,
    *,
    was: str | None = None,
) -> tuple[Item, Item] | None:
    """Give the item that status if it has the status ``was`` (None: any other); gives it before and after.

    None where it is not there, or has another status. Of those who change the same status at once, one does.
    Its embedding goes when it is archived.
    """
    cursor = await connection.execute(_HELD_STATUS, (collection_id, item_id))
    row = await cursor.fetchone()
    if row is None:
        return None
    before = item_from_row(row)
    if before.status == status or (was is not None and before.status != was):
        return None
    after = before.changed(status=status)
    await write_items(connection, collection_id, [after])
    if status == ARCHIVED:
        # Read here: the space may have come a moment ago, and from here on nobody embeds the item.
        space = await (await connection.execute(_SPACE, (collection_id,))).fetchone()
        if space is not None and space[0] is not None:
            await remove_embeddings(connection, table_of(space[0]), collection_id, [item_id])
    return before, after
