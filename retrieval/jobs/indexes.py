"""HNSW indexes follow the size of collections: made when one has grown large, concurrently."""

from __future__ import annotations

import logging
from enum import StrEnum

from psycopg import errors as pg

from retrieval.adapters.store.collections import StoredCollection
from retrieval.adapters.store.concurrent_index import build_statement, drop_statement
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.spaces import hnsw_definition, hnsw_name

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


_STATE = """
    SELECT i.indisvalid, EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""


async def ensure_hnsw(database: Database, collection: StoredCollection, rows: int = HNSW_ROWS) -> IndexOutcome:
    """Build the collection's HNSW index if it is large enough and has none; what a failed build left is removed."""
    space = collection.space
    if space is None or collection.documents < rows:
        return IndexOutcome.NOT_NEEDED
    schema = database.names.schema
    name = hnsw_name(space.space_id, collection.collection_id)
    async with database.maintenance() as connection:
        state = await (await connection.execute(_STATE, (schema, name))).fetchone()
        if state is not None and state[0]:
            return IndexOutcome.PRESENT
        if state is not None and state[1]:
            return IndexOutcome.BEING_BUILT
        definition = hnsw_definition(collection.collection_id).replace(
            "halfvec_ip_ops", f"{_quoted(database.facts.vector_schema)}.halfvec_ip_ops"
        )
        try:
            if state is not None:
                await connection.execute(drop_statement(name, schema).encode())
            await connection.execute(build_statement(name, schema, space.table_name, definition).encode())
        except pg.InsufficientPrivilege:
            _log.warning("no HNSW index for %s: %s", collection.name, IndexOutcome.NOT_ALLOWED.value)
            return IndexOutcome.NOT_ALLOWED
    return IndexOutcome.BUILT


def _quoted(schema: str | None) -> str:
    return '"' + (schema or "public").replace('"', '""') + '"'
