"""What goes on in the server and holds others up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdup:
    """Something that keeps dead rows, log files or other sessions waiting."""

    kind: str
    """``transaction``, ``idle``, ``blocked``, ``prepared`` or ``slot``."""
    who: str
    """The process number, the prepared transaction's name or the slot's name."""
    what: str
    """Whose it is: login and program, where they are known."""
    seconds: float
    """Since when; of a slot 0."""
    bytes: int = 0
    """Of a slot: the log that it keeps."""


LONG_SECONDS = 900
"""A transaction that is open for longer is told of; one that only sits there after a third of it."""

_HOLDUPS = """
    SELECT CASE WHEN a.state LIKE 'idle in transaction%%' THEN 'idle' ELSE 'transaction' END AS kind,
        a.pid::text AS who, concat_ws(', ', a.usename, nullif(a.application_name, '')) AS what,
        extract(epoch FROM clock_timestamp() - a.xact_start)::float AS seconds, 0::bigint AS bytes
    FROM pg_stat_activity a
    WHERE a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() AND a.datname = current_database()
        AND a.xact_start < clock_timestamp() - make_interval(secs => CASE
            WHEN a.state LIKE 'idle in transaction%%' THEN %(long)s / 3 ELSE %(long)s END)
    UNION ALL
    SELECT 'blocked', a.pid::text, concat_ws(', ', a.usename, nullif(a.application_name, ''), 'by '
            || array_to_string(pg_blocking_pids(a.pid), ' ')),
        extract(epoch FROM clock_timestamp() - l.waitstart)::float, 0
    FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE NOT l.granted AND l.waitstart < clock_timestamp() - interval '30 seconds'
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    UNION ALL
    SELECT 'prepared', p.gid, p.owner::text, extract(epoch FROM clock_timestamp() - p.prepared)::float, 0
    FROM pg_prepared_xacts p
    WHERE p.database = current_database() AND p.prepared < clock_timestamp() - make_interval(secs => %(long)s)
    UNION ALL
    SELECT 'slot', s.slot_name::text, s.slot_type, 0,
        pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END,
                        s.restart_lsn)::bigint
    FROM pg_replication_slots s WHERE NOT s.active AND s.restart_lsn IS NOT NULL
    ORDER BY kind, seconds DESC
"""


async def read_holdups(connection: psycopg.AsyncConnection[Any], long_seconds: float = LONG_SECONDS) -> list[Holdup]:
    """What is told of, as far as the login sees it."""
    async with connection.cursor(row_factory=class_row(Holdup)) as cursor:
        await cursor.execute(_HOLDUPS, {"long": long_seconds})
        return await cursor.fetchall()
