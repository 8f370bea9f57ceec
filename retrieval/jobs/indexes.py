"""HNSW indexes follow the size of collections: made when one has grown large, concurrently."""

from __future__ import annotations

import logging
from enum import Enum, StrEnum, auto

from psycopg import errors as pg

from retrieval.adapters.store.collections import StoredCollection
from retrieval.adapters.store.concurrent_index import build_statement, drop_statement
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installed_sql import quote_identifier
from retrieval.adapters.store.spaces import StoredSpace, hnsw_definition, hnsw_name
from retrieval.domain.errors import MissingPrivilegeError

_log = logging.getLogger(__name__)

HNSW_ROWS = 20_000
"""From this many items on, a collection gets an HNSW index; below, comparing all is fast and perfect."""


class IndexOutcome(StrEnum):
    """What became of the wish for an index."""

    NOT_NEEDED = "not needed"
    PRESENT = "present"
    BUILT = "built"
    BEING_BUILT = "being built by another process"
    NOT_ALLOWED = "not allowed: the login does not own the table; run retrieval ingest as the owner"


class _State(Enum):
    MISSING = auto()
    FAILED = auto()
    BEING_BUILT = auto()
    VALID = auto()


_TRIES = 3

_LOOK = """
    SELECT i.indisvalid, EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""


async def ensure_hnsw(database: Database, collection: StoredCollection, rows: int = HNSW_ROWS) -> IndexOutcome:
    """Build the collection's HNSW index if it is large enough and has none; what a failed build left is removed."""
    space = collection.space
    if space is None or collection.documents < rows:
        return IndexOutcome.NOT_NEEDED
    built = False
    try:
        for _ in range(_TRIES):
            state = await _state(database, hnsw_name(space.space_id, collection.collection_id))
            if state is _State.VALID:
                return IndexOutcome.BUILT if built else IndexOutcome.PRESENT
            if state is _State.BEING_BUILT:
                break
            built = await _build(database, collection, space, leftover=state is _State.FAILED)
    except MissingPrivilegeError:
        _log.warning("no HNSW index for %s: %s", collection.name, IndexOutcome.NOT_ALLOWED.value)
        return IndexOutcome.NOT_ALLOWED
    return IndexOutcome.BEING_BUILT


async def _state(database: Database, name: str) -> _State:
    async with database.maintenance() as connection:
        row = await (await connection.execute(_LOOK, (database.names.schema, name))).fetchone()
    if row is None:
        return _State.MISSING
    if row[0]:
        return _State.VALID
    return _State.BEING_BUILT if row[1] else _State.FAILED


async def _build(database: Database, collection: StoredCollection, space: StoredSpace, *, leftover: bool) -> bool:
    """Build the index; False if another process came in between."""
    schema, name = database.names.schema, hnsw_name(space.space_id, collection.collection_id)
    definition = hnsw_definition(collection.collection_id).replace(
        "halfvec_ip_ops", f"{quote_identifier(database.facts.vector_schema or 'public')}.halfvec_ip_ops"
    )
    async with database.maintenance() as connection:
        try:
            if leftover:
                await connection.execute(drop_statement(name, schema).encode())
            await connection.execute(build_statement(name, schema, space.table_name, definition).encode())
        except pg.DeadlockDetected:
            # Two concurrent builds on one table wait for each other; the server ends one of them.
            return False
    return True
