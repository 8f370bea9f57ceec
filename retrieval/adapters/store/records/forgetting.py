"""Remove the names of actors from records, and records older than their retention."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from psycopg import sql

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installed_sql import in_template
from retrieval.domain.serialization import Serializable


@dataclass(frozen=True, slots=True, kw_only=True)
class Pseudonymised(Serializable):
    """The counts of records whose actor's name was replaced."""

    pseudonym: str
    """The pseudonym of the actor in all rows of a call, from which the name cannot be found."""
    retrievals: int
    """The recorded searches that got it."""
    feedback: int
    """The events that got it."""


# Exclusive, as for every change of stored events; and before the other statement, which then sees everything that
# concurrent writers have committed.
_LOCK = Compiled("SELECT pg_advisory_xact_lock(feedback_lock())")

# Keys and subjects are hashes of names, which a guess could confirm: they are mixed with a secret that is not stored.
_REPLACE = Compiled("""
    WITH own AS MATERIALIZED (
        SELECT c.collection_id FROM collections c WHERE c.tenant_id = %(tenant_id)s
    ), searches AS (
        UPDATE retrievals SET actor = %(pseudonym)s, session = ''
        WHERE collection_id IN (SELECT o.collection_id FROM own o) AND actor = %(actor)s AND actor <> '' RETURNING 1
    ), events AS (
        UPDATE feedback SET actor = %(pseudonym)s, session = '', subject = md5(subject::text || %(secret)s)::uuid,
            feedback_key = md5(feedback_key::text || %(secret)s)::uuid
        WHERE collection_id IN (SELECT o.collection_id FROM own o) AND actor = %(actor)s RETURNING 1
    )
    SELECT (SELECT count(*) FROM searches), (SELECT count(*) FROM events)
""")
# A quarantine follows its events.
_FOLLOW = Compiled("""
    UPDATE quarantines SET actor = %(pseudonym)s WHERE tenant_id = %(tenant_id)s AND actor = %(actor)s RETURNING 1
""")


async def pseudonymise(database: Database, tenant_id: int, actor: str, pseudonym: str) -> Pseudonymised:
    """Replace an actor's name in a tenant's searches, feedback and quarantines, and remove the sessions.

    If the actor sends the same feedback again afterwards, it counts again.
    """
    names = {"tenant_id": tenant_id, "actor": actor, "pseudonym": pseudonym}
    replace = _REPLACE.bind(**names, secret=secrets.token_hex())
    _, [(retrievals, feedback)], _ = await database.write_each(tenant_id, [_LOCK, replace, _FOLLOW.bind(**names)])
    return Pseudonymised(pseudonym=pseudonym, retrievals=retrievals, feedback=feedback)


_ENSURE = Compiled("SELECT ensure_months()")
_ARE_DUE = Compiled("""
    SELECT EXISTS (SELECT FROM missing_months()) OR EXISTS (SELECT FROM old_months(%(days)s))
""")


async def ensure_months(database: Database) -> int:
    """Make the missing tables of this month and the next two; returns the number of tables made.

    Rows without a month's table move into a new one.
    """
    return int((await database.write(None, _ENSURE))[0][0])


async def drop_months(database: Database, days: int) -> int:
    """Drop the tables of months that ended more than ``days`` days ago; returns their number.

    Raises ``MissingPrivilegeError`` unless the login may act as the definer role, because the months have all tenants'
    rows.
    """
    statement = sql.SQL("SELECT {}(%s)").format(sql.Identifier(in_template(database.names.schema), "drop_months"))
    async with database.maintenance() as connection:
        return int(await connection.value(statement, (days,)))


async def is_any_month_due(database: Database, days: int) -> bool:
    """Whether a month's table is missing, or is older than ``days``."""
    rows = await database.read(None, _ARE_DUE.bind(days=days))
    return bool(rows[0][0])


STEP = 5000

_REMOVE = """
    WITH gone AS (
        DELETE FROM {table} WHERE {owner} = %(owner)s AND ctid = ANY(ARRAY(
            SELECT o.ctid FROM {table} AS o
            WHERE o.{owner} = %(owner)s AND o.{time} < now() - make_interval(days => %(days)s)
            LIMIT %(step)s
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING 1
    )
    SELECT count(*) FROM gone
"""


async def remove_older(
    database: Database, tenant_id: int, table: str, *, owner: tuple[str, int], time: str, days: int
) -> int:
    """Remove at most ``STEP`` rows of a table that are older than ``days`` days; returns their number.

    ``owner``: the column of the rows' owner, and its value.
    """
    column, value = owner
    statement = sql.SQL(_REMOVE).format(
        table=sql.Identifier(table), owner=sql.Identifier(column), time=sql.Identifier(time)
    )
    values = {"owner": value, "days": days, "step": STEP}
    return int((await database.write(tenant_id, Compiled(statement.as_string(), values)))[0][0])
