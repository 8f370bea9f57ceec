"""What has been kept long enough, removed: months of recorded searches at once, other rows step by step."""

from __future__ import annotations

from psycopg import sql

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database

_ENSURE = Compiled("SELECT ensure_months()")
_IN_QUESTION = Compiled("""
    SELECT EXISTS (SELECT FROM missing_months()) OR EXISTS (SELECT FROM old_months(%(days)s))
""")


async def ensure_months(database: Database) -> int:
    """Make the tables of this month and the next two, where they are missing; gives how many were made.

    What fell into no month meanwhile is moved into one of its own.
    """
    return int((await database.write(None, _ENSURE))[0][0])


async def drop_months(database: Database, days: int) -> int:
    """Drop the tables of the months of which everything is older than so many days; gives how many.

    Raises ``MissingPrivilegeError`` unless the login may act as the definer role: the months are every tenant's.
    """
    statement = sql.SQL("SELECT {}(%s)").format(sql.Identifier(database.names.schema, "drop_months"))
    async with database.maintenance() as connection:
        row = await (await connection.execute(statement, (days,))).fetchone()
    return 0 if row is None else int(row[0])


async def are_months_in_question(database: Database, days: int) -> bool:
    """Whether a month is missing, or is older than so many days."""
    rows = await database.read(None, _IN_QUESTION.bind(days=days))
    return bool(rows[0][0])


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
