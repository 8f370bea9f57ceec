"""Compare, write, archive, read and lock stored items."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql
from psycopg.types.json import Jsonb

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.arrays import blobs, half_vectors, texts
from retrieval.adapters.store.compiled import Compiled, compiled
from retrieval.adapters.store.database import CollectionPlace, Connection, Database
from retrieval.adapters.store.installed_sql import quote_identifier
from retrieval.adapters.store.items.conditions import HIT_COLUMNS
from retrieval.adapters.store.round_trip import Row, rows_of, run_together
from retrieval.adapters.store.tables import embeddings_table, items
from retrieval.domain.errors import DatabaseError
from retrieval.domain.items.embedding import Vector
from retrieval.domain.items.item import ITEM_FIELDS, Became, Item, StoredItem, text_hash, version_of

ARCHIVED = "archived"

BULK_ITEMS = 200
"""The number of items from which a write counts as bulk."""

CALL_CHARACTERS = 16 * 1024 * 1024
"""The characters of items after which a write goes on in another call: a parameter is limited to 1 GB."""

_WRITE = Compiled(
    """
    SELECT * FROM write_items(
        %(collection)s::bigint, %(space)s::bigint, %(only_new)s::boolean, %(goes_on)s::boolean, %(ids)s, %(kinds)s,
        %(titles)s, %(bodies)s, %(tags)s, %(attributes)s, %(statuses)s, %(sources)s, %(moments)s, %(hashes)s,
        %(text_hashes)s, %(vectors)s
    )
    """,
    keep=0,
)
_WRITE_VECTORS = Compiled(
    "SELECT write_vectors(%(collection)s::bigint, %(space)s::bigint, %(ids)s, %(vectors)s, %(text_hashes)s)", keep=0
)
_SETTLE = Compiled("SELECT settle_statistics(%(collection_id)s::bigint, %(written)s::integer)")
_REMOVE = Compiled("SELECT * FROM remove_items(%(collection_id)s::bigint, %(ids)s)", keep=0)
_ARCHIVE = Compiled("SELECT archive_items(%(collection_id)s::bigint, %(ids)s)", keep=0)


def _select(*columns: str) -> Compiled:
    """The statement that reads columns of the items ``item_ids`` of a collection."""
    where = "collection_id = %(collection_id)s AND item_id = ANY(%(item_ids)s)"
    return Compiled(f"SELECT {', '.join(columns)} FROM items WHERE {where}")  # noqa: S608 - of the code's own names


_HASHES = _select("item_id", "content_hash", "text_hash")


@dataclass(frozen=True, slots=True)
class StoredHashes:
    """The hashes of a stored item, which show what a new version of it changes."""

    content_hash: bytes
    text_hash: bytes


async def stored_hashes(at: CollectionPlace, item_ids: Sequence[str]) -> dict[str, StoredHashes]:
    """The hashes of those items that are stored, by item id."""
    return {
        row[0]: StoredHashes(bytes(row[1]), bytes(row[2])) for row in await at.read(_HASHES, item_ids=list(item_ids))
    }


@dataclass(frozen=True, slots=True)
class Settled:
    """The state of a collection after a write."""

    drift: float = 0.0
    """The relative difference between the items' average length and the average that their weights use."""
    has_new_fields: bool = False
    """Whether items have an attribute, or an attribute's type, that is new to the collection."""


@dataclass(frozen=True, slots=True)
class WrittenItems:
    """The result of a write."""

    formers: Mapping[str, bytes]
    """The former content hash of each item that existed, by item id."""
    embedded: int
    """Vectors that were new or changed."""
    settled: Settled | None
    """None: nothing was written."""
    times: tuple[datetime, datetime] | None = None
    """The times when a single item was made and last changed; None: it has been changed since."""


@dataclass(frozen=True, slots=True)
class ItemWrite:
    """Items to store in a collection if they are new or changed."""

    collection_id: int
    items: Sequence[Item]
    """Each id once."""
    space_id: int | None = None
    """The space that the writer embeds for."""
    vectors: Mapping[str, Vector] | None = None
    """Vectors of the items in that space, by item id; the other items stay pending."""
    only_new: bool = False
    """Whether an item that exists already is an error."""
    goes_on: bool = False
    """Whether it is a part of a larger write, which updates the statistics at its end."""

    def calls(self) -> list[Compiled]:
        """The statements, in order; several if the items are too large for one."""
        ordered = sorted(self.items, key=lambda item: item.item_id)
        parts = list(_split([(item, _ENCODE(dict(item.attributes))) for item in ordered]))
        return [self._call(part, goes_on=self.goes_on or part is not parts[-1]) for part in parts]

    def outcome(self, answers: Sequence[Sequence[tuple[Any, ...]]]) -> WrittenItems:
        """Make the result from the statements' answers."""
        ids = sorted(item.item_id for item in self.items)
        rows = [answer[0] for answer in answers]
        formers = [former for row in rows for former in row[0] or ()]
        former_hashes = {item_id: former for item_id, former in zip(ids, formers, strict=True) if former is not None}
        if not rows:
            return WrittenItems(former_hashes, 0, None)
        *_, created_at, updated_at, drift = rows[-1]
        settled = Settled(drift, any(row[2] for row in rows))
        times = None if created_at is None else (created_at, updated_at)
        return WrittenItems(former_hashes, sum(row[1] for row in rows), settled, times)

    def _call(self, pairs: Sequence[tuple[Item, str]], *, goes_on: bool) -> Compiled:
        part = [item for item, _ in pairs]
        contents = [item.indexed_text for item in part]
        vectors = None
        if self.vectors is not None and any(item.item_id in self.vectors for item in part):
            vectors = half_vectors([self.vectors.get(item.item_id) for item in part])
        return _WRITE.bind(
            collection=self.collection_id,
            space=self.space_id,
            only_new=self.only_new,
            goes_on=goes_on,
            ids=texts(item.item_id for item in part),
            kinds=texts(item.kind for item in part),
            titles=texts(item.title for item in part),
            bodies=texts(item.body for item in part),
            tags=texts(_array_literal(item.tags) for item in part),
            attributes=texts(attributes for _, attributes in pairs),
            statuses=texts(item.status for item in part),
            sources=texts(item.source for item in part),
            moments=texts(None if item.occurred_at is None else item.occurred_at.isoformat() for item in part),
            hashes=blobs(item.content_hash for item in part),
            text_hashes=blobs(map(text_hash, contents)),
            vectors=vectors,
        )


def _split(pairs: Sequence[tuple[Item, str]]) -> Iterator[list[tuple[Item, str]]]:
    """The items, each with its attributes as JSON, in parts for one call each."""
    part: list[tuple[Item, str]] = []
    size = 0
    for item, attributes in pairs:
        part.append((item, attributes))
        size += len(item.title) + len(item.body) + len(attributes) + 1000
        if size > CALL_CHARACTERS:
            yield part
            part, size = [], 0
    if part:
        yield part


def _array_literal(values: Sequence[str]) -> str:
    if not values:
        return "{}"
    escaped = (value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return '{"' + '","'.join(escaped) + '"}'


_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


async def store_items(database: Database, tenant_id: int, write: ItemWrite) -> WrittenItems:
    """Store the items in a transaction of their own, in one round trip (``sql/items/writing.sql``).

    Raises ``ItemIsThereError`` for an item that should be new and exists.
    """
    calls = await aside(write.calls, is_long=len(write.items) >= LONG)
    with _existing_item_errors():
        return write.outcome(await database.write_each(tenant_id, calls))


async def write_items(connection: Connection, write: ItemWrite) -> WrittenItems:
    """Store the items as a part of a transaction."""
    calls = await aside(write.calls, is_long=len(write.items) >= LONG)
    with _existing_item_errors():
        return write.outcome(await rows_of(await run_together(connection, calls)))


async def settle(at: CollectionPlace, written: int) -> float:
    """End a write of several parts (``ItemWrite.goes_on``) with ``written`` items; returns the drift (``Settled``)."""
    return float((await at.write(_SETTLE, written=written))[0][0])


class ItemIsThereError(Exception):
    """An item that should be new exists already; ``item_id`` is its id."""

    def __init__(self, item_id: str) -> None:
        super().__init__(item_id)
        self.item_id = item_id


@contextmanager
def _existing_item_errors() -> Iterator[None]:
    try:
        yield
    except (psycopg.errors.UniqueViolation, DatabaseError) as error:
        violation = error if isinstance(error, psycopg.errors.UniqueViolation) else error.__cause__
        if isinstance(violation, psycopg.errors.UniqueViolation) and violation.diag.message_detail is not None:
            raise ItemIsThereError(violation.diag.message_detail) from error
        raise


def stored_as(item: Item, written: WrittenItems) -> StoredItem | None:
    """The single item that was written, with its version; None if it has been changed since."""
    if written.times is None:
        return None
    former = written.formers.get(item.item_id)
    created_at, updated_at = written.times
    return StoredItem(
        item=item,
        version=version_of(item.content_hash, updated_at),
        created_at=created_at,
        updated_at=updated_at,
        became=became(former, item.content_hash),
    )


def became(former: bytes | None, content_hash: bytes) -> Became:
    """The effect of a write on an item, by its former content hash (None: there was no item) and its new one."""
    if former is None:
        return Became.ADDED
    return Became.UNCHANGED if former == content_hash else Became.CHANGED


def vectors_statement(collection_id: int, space_id: int, vectors: Mapping[str, tuple[bytes, Vector]]) -> Compiled:
    """The statement that stores vectors by item id, each with its text's hash (``sql/search/vectors.sql``).

    It returns the number of new or changed vectors. A vector is left out if its item was removed or archived, or its
    text has changed. If items are indexed with their neighbours, it mixes the neighbours' vectors again.
    """
    ids = sorted(vectors)
    return _WRITE_VECTORS.bind(
        collection=collection_id,
        space=space_id,
        ids=texts(ids),
        vectors=half_vectors([vectors[item_id][1] for item_id in ids]),
        text_hashes=blobs(vectors[item_id][0] for item_id in ids),
    )


async def hold_writers(connection: Connection, collection_id: int) -> None:
    """Lock out other writers of the collection's items until this transaction ends."""
    await connection.execute("SELECT pg_advisory_xact_lock(writers_lock(%s))", (collection_id,))


async def join_writers(connection: Connection, collection_id: int) -> None:
    """Be one of the collection's writers until this transaction ends; wait for a caller that locks them out."""
    await connection.execute("SELECT pg_advisory_xact_lock_shared(writers_lock(%s))", (collection_id,))


async def hold_documents(connection: Connection, collection_id: int) -> None:
    """Lock out other callers that replace or remove documents of the collection until this transaction ends."""
    lock = "SELECT pg_advisory_xact_lock(hashtextextended('retrieval documents ' || current_schema(), %s))"
    await connection.execute(lock, (collection_id,))


async def flush_terms(connection: Connection, schema: str) -> None:
    """Merge the pending entries into the lexical index. The connection's login must own it."""
    index = sql.SQL("SELECT gin_clean_pending_list({}::regclass)")
    await connection.execute(index.format(sql.Literal(f"{quote_identifier(schema)}.item_terms_lexemes_idx")))


async def archive_items(at: CollectionPlace, ids: Sequence[str]) -> Settled:
    """Archive the items: they are kept, and no search finds them."""
    return Settled((await at.write(_ARCHIVE, ids=texts(ids)))[0][0])


async def remove_items(at: CollectionPlace, ids: Sequence[str]) -> tuple[int, Settled]:
    """Remove the items with their terms and vectors; returns their number."""
    removed, drift = (await at.write(_REMOVE, ids=texts(ids)))[0]
    return int(removed), Settled(drift)


_READ = _select(*ITEM_FIELDS)


async def read_items(at: CollectionPlace, item_ids: Sequence[str]) -> dict[str, Item]:
    """The items of those ids that exist, by item id."""
    return {row[0]: item_from_row(row) for row in await at.read(_READ, item_ids=list(item_ids))}


def hit_columns(
    collection_id: sa.ColumnElement[int], space_id: int, dimensions: int
) -> tuple[sa.ColumnElement[Any], ...]:
    """``HIT_COLUMNS`` of an item, and whether it waits for its vector in the space (0: never)."""
    waits: sa.ColumnElement[bool] = sa.false()
    if space_id:
        vectors = embeddings_table(space_id, dimensions).c
        embedded = sa.select(vectors.content_hash).where(
            vectors.collection_id == collection_id, vectors.item_id == items.c.item_id
        )
        waits = sa.func.waits_for_vector(items.c.status, items.c.text_hash, embedded.scalar_subquery())
    return (*(items.c[name] for name in HIT_COLUMNS), waits)


@lru_cache(maxsize=256)
def _read_hits(space_id: int, dimensions: int) -> Compiled:
    collection_id = sa.bindparam("collection_id", type_=sa.BigInteger)
    statement = sa.select(items.c.item_id, *hit_columns(collection_id, space_id, dimensions)).where(
        items.c.collection_id == collection_id,
        items.c.item_id == sa.func.any(sa.bindparam("item_ids", type_=sa.types.NullType())),
    )
    return replace(compiled(statement), keep=0)


@dataclass(frozen=True, slots=True)
class HitRows:
    """The columns of hits."""

    columns: Mapping[str, tuple[Any, ...]]
    """``HIT_COLUMNS`` of those items that exist, by item id."""
    waiting: frozenset[str] = frozenset()
    """The items that wait for their vector in the space."""

    @classmethod
    def of(cls, rows: Sequence[Row], *, item_id: int = 0, columns: int = 1) -> HitRows:
        """The hits in rows that end with ``hit_columns``, by the places of the item id and of the first column."""
        return cls({row[item_id]: row[columns:-1] for row in rows}, frozenset(row[item_id] for row in rows if row[-1]))


async def read_hit_rows(
    database: Database,
    tenant_id: int,
    collection_id: int,
    item_ids: Sequence[str],
    settings: Mapping[str, str],
    *,
    space_id: int = 0,
    dimensions: int = 0,
) -> HitRows:
    """The columns of these items, and those that wait for their vector in the space (0: not checked).

    ``settings``: those of the search, so that the connection need not change them.
    """
    statement = _read_hits(space_id, dimensions).bind(collection_id=collection_id, item_ids=texts(item_ids))
    return HitRows.of(await database.read(tenant_id, statement, settings))


def item_from_row(row: tuple[Any, ...]) -> Item:
    """The item whose ``ITEM_FIELDS`` were read."""
    return Item.as_stored(**dict(zip(ITEM_FIELDS, row, strict=True)))


STORED_COLUMNS = (*ITEM_FIELDS, "created_at", "updated_at", "content_hash")
"""The columns of an item with its version, in the order of reading."""

_READ_VERSIONS = _select(*STORED_COLUMNS)
_HOLD_ONE = f"SELECT {', '.join(STORED_COLUMNS)} FROM hold_items(%s, ARRAY[%s])"  # noqa: S608 - of the names above


async def read_stored(at: CollectionPlace, item_ids: Sequence[str]) -> dict[str, StoredItem]:
    """The items of those ids that exist, by item id."""
    return {row[0]: stored_from_row(row) for row in await at.read(_READ_VERSIONS, item_ids=list(item_ids))}


async def hold_item(connection: Connection, collection_id: int, item_id: str) -> StoredItem | None:
    """The item, locked until the transaction ends; None: there is no such item."""
    row = await (await connection.execute(_HOLD_ONE, (collection_id, item_id))).fetchone()
    return None if row is None else stored_from_row(row)


def stored_from_row(row: tuple[Any, ...]) -> StoredItem:
    """The item whose ``STORED_COLUMNS`` were read."""
    created_at, updated_at, content_hash = row[len(ITEM_FIELDS) :]
    return StoredItem(
        item=item_from_row(row[: len(ITEM_FIELDS)]),
        version=version_of(bytes(content_hash), updated_at),
        created_at=created_at,
        updated_at=updated_at,
    )


_HOLD = f"SELECT {', '.join(ITEM_FIELDS)} FROM hold_items(%s, %s)"  # noqa: S608 - of the names above
_SET_ATTRIBUTES = """
    UPDATE items SET attributes = fresh.attributes, content_hash = fresh.content_hash
    FROM unnest(%(ids)s::text[], %(attributes)s::jsonb[], %(hashes)s::bytea[])
        AS fresh (item_id, attributes, content_hash)
    WHERE items.collection_id = %(id)s AND items.item_id = fresh.item_id
"""
_INDEX_ATTRIBUTES = (
    "SELECT know_attributes(%(id)s, %(ids)s), index_attributes(%(id)s, %(ids)s), write_facets(%(id)s, %(ids)s)"
)


async def hold_items(connection: Connection, collection_id: int, item_ids: Sequence[str]) -> dict[str, Item]:
    """Lock the items that exist until the transaction ends, and read them, by item id."""
    return {row[0]: item_from_row(row) for row in await connection.rows(_HOLD, (collection_id, list(item_ids)))}


async def write_attributes(connection: Connection, collection_id: int, items_: Sequence[Item]) -> None:
    """Store the attributes of locked items; nothing else is written, not even ``updated_at``."""
    if not items_:
        return
    ids = [item.item_id for item in items_]
    values = {
        "id": collection_id,
        "ids": ids,
        "attributes": [Jsonb(dict(item.attributes)) for item in items_],
        "hashes": [item.content_hash for item in items_],
    }
    await connection.execute(_SET_ATTRIBUTES, values)
    await connection.execute(_INDEX_ATTRIBUTES, {"id": collection_id, "ids": ids})


_TOUCH = "UPDATE items SET updated_at = now() WHERE collection_id = %s AND item_id = ANY(%s)"


async def touch_items(connection: Connection, collection_id: int, item_ids: Sequence[str]) -> None:
    """Set the time of change of locked items to now, although their contents stay the same."""
    if item_ids:
        await connection.execute(_TOUCH, (collection_id, list(item_ids)))
