"""Removal from records: the names of actors, and records older than their retention."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from psycopg import sql

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.serialization import Serializable


@dataclass(frozen=True, slots=True, kw_only=True)
class Pseudonymised(Serializable):
    """The counts of records whose actor's name was replaced."""

    pseudonym: str
    """The pseudonym of the actor in all rows of a call; nothing leads back from it to the name."""
    retrievals: int
    """Recorded searches that bear it now."""
    feedback: int
    """Events that bear it now."""


# Alone, like all that changes what is known of events; and before the other statement, which then sees what those who
# wrote meanwhile have committed.
_LOCK = "SELECT pg_advisory_xact_lock(feedback_lock())"

# A quarantine follows the events that it is about. Keys and subjects are made from names too, which a guess could
# confirm; so they are mixed with a secret that is kept nowhere.
_REPLACE = """
    WITH own AS MATERIALIZED (
        SELECT c.collection_id FROM collections c WHERE c.tenant_id = %(tenant_id)s
    ), searches AS (
        UPDATE retrievals SET actor = %(pseudonym)s, session = ''
        WHERE collection_id IN (SELECT o.collection_id FROM own o) AND actor = %(actor)s AND actor <> '' RETURNING 1
    ), events AS (
        UPDATE feedback SET actor = %(pseudonym)s, session = '', subject = md5(subject::text || %(secret)s)::uuid,
            feedback_key = md5(feedback_key::text || %(secret)s)::uuid
        WHERE collection_id IN (SELECT o.collection_id FROM own o) AND actor = %(actor)s RETURNING 1
    ), quarantined AS (
        UPDATE quarantines SET actor = %(pseudonym)s
        WHERE collection_id IN (SELECT o.collection_id FROM own o) AND actor = %(actor)s
    )
    SELECT (SELECT count(*) FROM searches), (SELECT count(*) FROM events)
"""


async def pseudonymise(database: Database, tenant_id: int, actor: str, pseudonym: str) -> Pseudonymised:
    """Replace an actor's name in a tenant's searches, feedback and quarantines, and forget the sessions.

    The tenant's feedback waits meanwhile. Repeated afterwards, the actor's feedback counts once more: nothing tells
    that it is the same.
    """
    values = {"tenant_id": tenant_id, "actor": actor, "pseudonym": pseudonym, "secret": secrets.token_hex()}
    async with database.transaction(tenant_id) as connection:
        await connection.execute(_LOCK)
        row = await (await connection.execute(_REPLACE, values)).fetchone()
    retrievals, feedback = row or (0, 0)
    return Pseudonymised(pseudonym=pseudonym, retrievals=retrievals, feedback=feedback)


_ENSURE = Compiled("SELECT ensure_months()")
_IN_QUESTION = Compiled("""
    SELECT EXISTS (SELECT FROM missing_months()) OR EXISTS (SELECT FROM old_months(%(days)s))
""")


async def ensure_months(database: Database) -> int:
    """Make the tables of this month and the next two, where they are missing; returns how many were made.

    Rows that had no month's table are moved into one of their own.
    """
    return int((await database.write(None, _ENSURE))[0][0])


async def drop_months(database: Database, days: int) -> int:
    """Drop the tables of months that are wholly older than so many days; returns how many.

    Raises ``MissingPrivilegeError`` unless the login may act as the definer role: the months are every tenant's.
    """
    statement = sql.SQL("SELECT {}(%s)").format(sql.Identifier(database.names.schema, "drop_months"))
    async with database.maintenance() as connection:
        row = await (await connection.execute(statement, (days,))).fetchone()
    return 0 if row is None else int(row[0])


async def are_months_in_question(database: Database, days: int) -> bool:
    """Whether a month is missing, or is older than ``days``."""
    rows = await database.read(None, _IN_QUESTION.bind(days=days))
    return bool(rows[0][0])


STEP = 5000

_REMOVE = """
    DELETE FROM {table} WHERE {owner} = %(owner)s AND ctid = ANY(ARRAY(
        SELECT o.ctid FROM {table} AS o
        WHERE o.{owner} = %(owner)s AND o.{time} < now() - make_interval(days => %(days)s)
        LIMIT %(step)s
        FOR UPDATE SKIP LOCKED
    ))
"""


async def remove_older(
    database: Database, tenant_id: int, table: str, *, owner: tuple[str, int], time: str, days: int
) -> int:
    """Remove a step of a table's rows that are older than so many days; returns how many. 0: none is left.

    ``owner`` is the column that says whose the rows are, with its value.
    """
    column, value = owner
    statement = sql.SQL(_REMOVE).format(
        table=sql.Identifier(table), owner=sql.Identifier(column), time=sql.Identifier(time)
    )
    async with database.transaction(tenant_id) as connection:
        cursor = await connection.execute(statement, {"owner": value, "days": days, "step": STEP})
        return cursor.rowcount
