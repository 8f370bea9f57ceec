"""Whether an open database still has the schema that it was opened with."""

from __future__ import annotations

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.revisions import status_of

_REVISION = Compiled("SELECT version_num FROM alembic_version")


async def check_revision(database: Database) -> None:
    """Raise ``SchemaRevisionError`` if it has another revision by now, and ``DatabaseError`` if it cannot be asked."""
    rows = await database.read(None, _REVISION)
    status_of(database.names.schema, rows[0][0] if rows else None).check()
