"""The collections of every tenant, for a worker, which acts for one tenant after the other."""

from __future__ import annotations

from psycopg import sql

from retrieval.adapters.store.database import Database


async def tenants_with_collections(database: Database) -> list[int]:
    """The numbers of the tenants that have a collection, ascending.

    Raises ``MissingPrivilegeError`` unless the login may act as the definer role.
    """
    statement = sql.SQL("SELECT DISTINCT tenant_id FROM {}() ORDER BY tenant_id").format(
        sql.Identifier(database.names.schema, "every_collection")
    )
    async with database.maintenance() as connection:
        return [int(row[0]) for row in await (await connection.execute(statement)).fetchall()]
