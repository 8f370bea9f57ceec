"""HNSW indexes follow the size of collections: made when one has grown large, concurrently."""

from __future__ import annotations

import logging
from enum import StrEnum

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
    BEING_BUILT = "another process is building on the same table; the next ingest sees to what is missing"
    NOT_ALLOWED = "not allowed: the login does not own the table; run retrieval ingest as the owner"


_IS_VALID = """
    SELECT i.indisvalid
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""


async def ensure_hnsw(database: Database, collection: StoredCollection, rows: int = HNSW_ROWS) -> IndexOutcome:
    """Build the collection's HNSW index if it is large enough and has none; what a failed build left is removed."""
    space = collection.space
    if space is None or collection.documents < rows:
        return IndexOutcome.NOT_NEEDED
    if collection.has_hnsw:
        return IndexOutcome.PRESENT
    # Two concurrent builds on one table wait for each other until the server ends one of them.
    async with database.only_one(f"indexes of {space.table_name}") as alone:
        if not alone:
            return IndexOutcome.BEING_BUILT
        try:
            return await _build(database, collection.collection_id, space)
        except MissingPrivilegeError:
            _log.warning("no HNSW index for %s: %s", collection.name, IndexOutcome.NOT_ALLOWED.value)
            return IndexOutcome.NOT_ALLOWED


async def _build(database: Database, collection_id: int, space: StoredSpace) -> IndexOutcome:
    schema, name = database.names.schema, hnsw_name(space.space_id, collection_id)
    vector_schema = quote_identifier(database.facts.vector_schema or "public")
    definition = hnsw_definition(collection_id).replace("halfvec_ip_ops", f"{vector_schema}.halfvec_ip_ops")
    async with database.maintenance() as connection:
        found = await (await connection.execute(_IS_VALID, (schema, name))).fetchone()
        if found is not None and found[0]:
            return IndexOutcome.PRESENT
        if found is not None:
            await connection.execute(drop_statement(name, schema).encode())
        await connection.execute(build_statement(name, schema, space.table_name, definition).encode())
    return IndexOutcome.BUILT
