"""The HNSW indexes of a collection, as PostgreSQL sees them."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """An index, whether it can be used or not."""

    name: str
    valid: bool
    bytes: int
    rows: int
    """Rows when PostgreSQL last counted them; -1: it has not yet."""


_FIND = Compiled("""
    SELECT k.relname::text, i.indisvalid, pg_relation_size(k.oid), k.reltuples::bigint
    FROM pg_index i JOIN pg_class k ON k.oid = i.indexrelid JOIN pg_namespace n ON n.oid = k.relnamespace
    WHERE n.nspname = current_schema() AND k.relname ~ ('^embeddings_[0-9]+_' || %(id)s || '_hnsw')
    ORDER BY k.relname
""")


async def collection_indexes(database: Database, tenant_id: int, collection_id: int) -> list[IndexStatus]:
    """The HNSW indexes of a collection, in whichever space, by name."""
    rows = await database.read(tenant_id, _FIND.bind(id=str(collection_id)))
    return [IndexStatus(name=row[0], valid=row[1], bytes=row[2], rows=row[3]) for row in rows]
