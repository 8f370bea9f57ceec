"""Embedding spaces and their vectors, in each space's table and in the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import LiteralString

import numpy as np
from psycopg import sql

from retrieval.adapters.store.arrays import half_vector, half_vectors
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.round_trip import Row
from retrieval.domain.items.embedding import EmbeddingSpace, Vector
from retrieval.domain.items.item import Item
from retrieval.domain.search.diversity import NO_VECTORS, PoolVectors


@dataclass(frozen=True, slots=True)
class StoredSpace:
    """A registered space: its vectors are in table ``embeddings_<space_id>``."""

    space_id: int
    space: EmbeddingSpace

    @property
    def table_name(self) -> str:
        """The table that holds the space's vectors."""
        return table_of(self.space_id)


def table_of(space_id: int) -> str:
    """The table that holds that space's vectors."""
    return f"embeddings_{space_id}"


async def register_space(database: Database, space: EmbeddingSpace) -> StoredSpace:
    """The space with its number; it and its table are created if missing."""
    statement = Compiled(
        "SELECT register_embedding_space(%(provider)s, %(model)s, %(revision)s, %(dimensions)s::integer, "
        "%(distance)s, %(document_prefix)s, %(query_prefix)s)",
        {name: getattr(space, name) for name in EmbeddingSpace.__slots__},
    )
    rows = await database.read(None, statement)
    return StoredSpace(int(rows[0][0]), space)


_WAITING = """
    FROM items AS item
    LEFT JOIN {table} AS done ON done.collection_id = item.collection_id AND done.item_id = item.item_id
    WHERE waits_for_vector(item.status, item.text_hash, done.content_hash)
"""
"""The items that wait for their vector in a space's table; statements add conditions (``for_table``)."""

_WAITING_BY_KEY = """
    FROM items AS item
    LEFT JOIN LATERAL (
        SELECT known.content_hash FROM {table} AS known
        WHERE known.collection_id = item.collection_id AND known.item_id = item.item_id
        LIMIT 1
    ) AS done ON true
    WHERE waits_for_vector(item.status, item.text_hash, done.content_hash)
"""
"""The same, with each vector looked up by its key, whatever the planner expects: for the pages of a walk, which must
read neither all vectors before them nor, in a collection that is not in the statistics yet, all vectors for each item.
"""

JOINS_ALL: Mapping[str, str] = {"enable_nestloop": "off"}
"""The settings of a statement that joins all rows of a collection with others of it.

The planner estimates one row for a collection that its statistics do not know yet, and would compare each with each.
"""

_PENDING = """
    SELECT item.item_id, item.title, item.body {waiting_by_key}
        AND item.collection_id = %(collection_id)s AND item.item_id > %(after)s
    ORDER BY item.item_id LIMIT %(limit)s
"""
_PENDING_AMONG = """
    SELECT item.item_id {waiting_by_key}
        AND item.collection_id = %(collection_id)s AND item.item_id = ANY(%(item_ids)s)
"""
_COUNT_PENDING = """
    SELECT count(*) {waiting}
        AND item.collection_id = %(collection_id)s
"""
_SAMPLE = """
    SELECT item_id, vector FROM {table}
    WHERE collection_id = %(collection_id)s
    ORDER BY hashtextextended(item_id, 0) LIMIT %(number)s
"""
_READ = """
    SELECT item_id, vector FROM {table}
    WHERE collection_id = %(collection_id)s AND item_id = ANY(%(item_ids)s)
"""
_READ_POOL = """
    SELECT array_agg(item_id), string_agg(halfvec_send(vector), ''::bytea) FROM {table}
    WHERE collection_id = %(collection_id)s AND item_id = ANY(%(item_ids)s)
"""
_READ_OWN = Compiled("""
    SELECT item_id, vector FROM own_vectors
    WHERE collection_id = %(collection_id)s AND item_id = ANY(%(item_ids)s) AND space_id = %(space_id)s
""")
_COMPARE = """
    SELECT max(near.distance)
    FROM unnest(%(item_ids)s::text[]) AS wanted (item_id)
    CROSS JOIN LATERAL (
        SELECT known.vector <#> %(vector)s AS distance FROM {table} AS known
        WHERE known.collection_id = %(collection_id)s AND known.item_id = wanted.item_id
        LIMIT 1
    ) AS near
"""
_CACHED = Compiled("""
    SELECT text_hash, vector FROM embedding_cache
    WHERE tenant_id = %(tenant_id)s AND space_id = %(space_id)s AND text_hash = ANY(%(hashes)s)
""")
_CACHE = Compiled("""
    INSERT INTO embedding_cache (tenant_id, space_id, text_hash, vector)
    SELECT %(tenant_id)s, %(space_id)s, entry.text_hash, entry.vector
    FROM unnest(%(hashes)s::bytea[], %(vectors)s::halfvec[]) AS entry (text_hash, vector)
    ORDER BY entry.text_hash
    ON CONFLICT DO NOTHING
""")


def pending_statement(collection_id: int, space: StoredSpace, *, after: str, limit: int) -> Compiled:
    """The statement that reads id, title and body of the next pending items, in order of item id."""
    return for_table(_PENDING, space.table_name).bind(collection_id=collection_id, after=after, limit=limit)


async def pending_items(at: CollectionPlace, space: StoredSpace, *, after: str, limit: int) -> list[Item]:
    """The next items, in order of item id, whose text has no vector in the space: a page of a walk."""
    rows = await at.database.read(at.tenant_id, pending_statement(at.collection_id, space, after=after, limit=limit))
    return [Item.as_stored(item_id=row[0], title=row[1], body=row[2]) for row in rows]


async def pending_among(at: CollectionPlace, space: StoredSpace, item_ids: Sequence[str]) -> set[str]:
    """Read the ids of these items that wait for their vector."""
    return {row[0] for row in await at.read(for_table(_PENDING_AMONG, space.table_name), item_ids=list(item_ids))}


async def count_pending(at: CollectionPlace, space: StoredSpace) -> int:
    """Count the items that wait for their vector."""
    return int((await at.read(for_table(_COUNT_PENDING, space.table_name), JOINS_ALL))[0][0])


async def sample_vectors(at: CollectionPlace, space: StoredSpace, number: int) -> list[tuple[str, Vector]]:
    """Up to ``number`` of the collection's vectors with their item ids: always the same ones, chosen by a hash."""
    rows = await at.read(for_table(_SAMPLE, space.table_name), number=number)
    return [(row[0], np.asarray(row[1].to_numpy(), dtype=np.float32)) for row in rows]


async def read_embeddings(at: CollectionPlace, space: StoredSpace, item_ids: Sequence[str]) -> dict[str, Vector]:
    """The items' vectors by item id, if they have one: shape (dimensions,), unit length."""
    return _unit_vectors(await at.read(for_table(_READ, space.table_name), item_ids=list(item_ids)))


async def own_vectors(at: CollectionPlace, space: StoredSpace, item_ids: Sequence[str]) -> dict[str, Vector]:
    """The vectors of the items' own texts, for those that are indexed with neighbours: like ``read_embeddings``."""
    return _unit_vectors(await at.read(_READ_OWN, space_id=space.space_id, item_ids=list(item_ids)))


async def read_pool_vectors(at: CollectionPlace, space: StoredSpace, item_ids: Sequence[str]) -> PoolVectors:
    """The vectors of those items that have one, as a search refines by them: rounded to half precision."""
    [(found, sent)] = await at.read(for_table(_READ_POOL, space.table_name), item_ids=list(item_ids))
    return NO_VECTORS if found is None else sent_vectors(found, sent)


def sent_vectors(item_ids: Sequence[str], sent: bytes) -> PoolVectors:
    """The vectors of these items, one after another as ``halfvec_send`` writes them.

    It writes for each its dimensions, an unused number and its values, in two bytes each.
    """
    numbers = np.frombuffer(sent, dtype=">f2").reshape(len(item_ids), -1)
    return PoolVectors(numbers[:, 2:].astype(np.float32), {item_id: row for row, item_id in enumerate(item_ids)})


def _unit_vectors(rows: Sequence[Row]) -> dict[str, Vector]:
    vectors = {row[0]: np.asarray(row[1].to_numpy(), dtype=np.float32) for row in rows}
    # Half precision has rounded their length a little.
    return {item_id: vector / np.linalg.norm(vector) for item_id, vector in vectors.items()}


def compare_by_key(collection_id: int, space: StoredSpace, vector: Vector, item_ids: Sequence[str]) -> Compiled:
    """A statement that looks up these items' vectors by their keys and compares each with ``vector``."""
    statement = for_table(_COMPARE, space.table_name)
    return statement.bind(collection_id=collection_id, item_ids=list(item_ids), vector=half_vector(vector))


async def cached_vectors(
    database: Database, tenant_id: int, space: StoredSpace, hashes: Sequence[bytes]
) -> dict[bytes, Vector]:
    """The cached vectors, by text hash."""
    statement = _CACHED.bind(tenant_id=tenant_id, space_id=space.space_id, hashes=list(hashes))
    rows = await database.read(tenant_id, statement)
    return {row[0]: np.asarray(row[1].to_numpy(), dtype=np.float32) for row in rows}


async def cache_vectors(
    database: Database, tenant_id: int, space: StoredSpace, vectors: Mapping[bytes, Vector]
) -> None:
    """Cache vectors by text hash."""
    values = {"hashes": list(vectors), "vectors": half_vectors(vectors.values())}
    await database.write(tenant_id, _CACHE.bind(tenant_id=tenant_id, space_id=space.space_id, **values))


@lru_cache(maxsize=256)
def for_table(template: LiteralString, table_name: str) -> Compiled:
    """The statement on that table; ``{waiting}`` and ``{waiting_by_key}`` are the items that wait for theirs there."""
    table = sql.Identifier(table_name)
    waiting, by_key = (sql.SQL(each).format(table=table) for each in (_WAITING, _WAITING_BY_KEY))
    statement = sql.SQL(template).format(table=table, waiting=waiting, waiting_by_key=by_key)
    return Compiled(statement.as_string())
