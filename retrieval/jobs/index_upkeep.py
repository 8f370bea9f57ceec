"""A collection's HNSW index, kept as its size asks for, and built anew."""

from __future__ import annotations

from retrieval.adapters.store.collections import StoredCollection
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installed_sql import quote_identifier
from retrieval.adapters.store.spaces import hnsw_name
from retrieval.domain.errors import MissingPrivilegeError
from retrieval.jobs.indexes import IndexOutcome, ensure_hnsw


async def keep_index(database: Database, collection: StoredCollection) -> IndexOutcome:
    """Make the index if the collection is large enough and has none."""
    return await ensure_hnsw(database, collection)


async def rebuild_index(database: Database, collection: StoredCollection) -> IndexOutcome:
    """Build the index anew while searches go on with the old one; one that is missing or invalid is made by size."""
    space = collection.space
    if space is None or not collection.has_hnsw:
        return await keep_index(database, collection)
    name = hnsw_name(space.space_id, collection.collection_id)
    index = f"{quote_identifier(database.names.schema)}.{quote_identifier(name)}"
    async with database.only_one(f"indexes of {space.table_name}") as alone:
        if not alone:
            return IndexOutcome.BEING_BUILT
        try:
            async with database.maintenance() as connection:
                await connection.execute(f"REINDEX INDEX CONCURRENTLY {index}".encode())
        except MissingPrivilegeError:
            return IndexOutcome.NOT_ALLOWED
    return IndexOutcome.BUILT
