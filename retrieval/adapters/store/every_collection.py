"""What a worker sees that no tenant does: the queue, and whose collections there are."""

from __future__ import annotations

from psycopg import sql

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installed_sql import quote_identifier
from retrieval.domain.errors import MissingPrivilegeError

_MAY_WORK = """
    SELECT session_user::text, EXISTS (
        SELECT FROM pg_namespace n WHERE n.nspname = %s AND has_schema_privilege(session_user, n.oid, 'USAGE')
    )
"""


async def check_worker(database: Database) -> None:
    """Raise ``MissingPrivilegeError``, with the grant that mends it, unless the login may work through the queue."""
    async with database.maintenance() as connection:
        row = await (await connection.execute(_MAY_WORK, (database.names.jobs_schema,))).fetchone()
    if row is not None and not row[1]:
        grant = f"GRANT {quote_identifier(database.names.definer_role)} TO {quote_identifier(row[0])}"
        raise MissingPrivilegeError(
            f"login {row[0]!r} may not work through the queue of jobs; let the owner run: {grant} "
            "(see docs/how-to/jobs.md)"
        )


async def tenants_with_collections(database: Database) -> list[int]:
    """The numbers of the tenants that have a collection, ascending.

    Raises ``MissingPrivilegeError`` unless the login may act as the definer role.
    """
    statement = sql.SQL("SELECT DISTINCT tenant_id FROM {}() ORDER BY tenant_id").format(
        sql.Identifier(database.names.schema, "every_collection")
    )
    async with database.maintenance() as connection:
        return [int(row[0]) for row in await (await connection.execute(statement)).fetchall()]
