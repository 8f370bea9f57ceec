"""What has been kept long enough, removed step by step."""

from __future__ import annotations

from psycopg import sql

from retrieval.adapters.store.database import Database

STEP = 5000

_REMOVE = """
    DELETE FROM {table} WHERE ctid = ANY(ARRAY(
        SELECT o.ctid FROM {table} AS o
        WHERE o.{owner} = %(owner)s AND o.{time} < now() - make_interval(days => %(days)s)
        LIMIT %(step)s
        FOR UPDATE SKIP LOCKED
    ))
"""


async def remove_older(
    database: Database, tenant_id: int, table: str, *, owner: tuple[str, int], time: str, days: int
) -> int:
    """Remove a step of a table's rows whose time is so many days ago; gives how many. 0: nothing is left to remove.

    ``owner`` is the column that says whose the rows are, with its value.
    """
    column, value = owner
    statement = sql.SQL(_REMOVE).format(
        table=sql.Identifier(table), owner=sql.Identifier(column), time=sql.Identifier(time)
    )
    async with database.transaction(tenant_id) as connection:
        cursor = await connection.execute(statement, {"owner": value, "days": days, "step": STEP})
        return cursor.rowcount
