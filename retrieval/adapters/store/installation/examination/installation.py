"""Everything that the login itself sees of the installation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from retrieval.adapters.store.database import CONNECT_TIMEOUT_SECONDS
from retrieval.adapters.store.installation.examination.server_state import (
    Holdup,
    QueueFacts,
    ServerState,
    Settings,
    has_queue,
    read_holdups,
    read_queue,
    read_server,
    read_settings,
)
from retrieval.adapters.store.installation.examination.table_state import (
    IndexState,
    TableState,
    read_functions,
    read_indexes,
    read_tables,
)
from retrieval.adapters.store.installed_sql import Names
from retrieval.adapters.store.translate import translated

T = TypeVar("T")

_Connection = psycopg.AsyncConnection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Facts; None is what the login may not read."""

    server: ServerState
    settings: Settings
    tables: tuple[TableState, ...]
    indexes: tuple[IndexState, ...]
    holdups: tuple[Holdup, ...] | None
    queue: QueueFacts | None
    functions: frozenset[str]
    """The names of the schema's functions."""
    has_queue: bool = True
    """Whether the schema of the queue and its tables are there."""


async def read_installation(connection: _Connection, names: Names, *, stalled_seconds: float) -> Installation:
    """Read all of it, in eight statements on one connection that is in no transaction.

    ``stalled_seconds``: how long a worker may be silent.
    """
    holdups = await _allowed(read_holdups(connection))
    server = await read_server(connection, names)
    return Installation(
        server=server,
        settings=await read_settings(connection),
        tables=tuple(await read_tables(connection, names)),
        indexes=tuple(await read_indexes(connection, names)),
        holdups=None if holdups is None else tuple(holdups),
        queue=await _allowed(read_queue(connection, names, stalled_seconds)),
        functions=await read_functions(connection, names),
        has_queue=not server.has_schema or await has_queue(connection, names),
    )


async def read_revision(connection: _Connection, names: Names) -> str | None:
    """The schema's revision, read as the application role; None where there is none."""
    statement = sql.SQL("SELECT version_num FROM {}.alembic_version").format(sql.Identifier(names.schema))
    async with connection.transaction():
        await connection.execute("SELECT set_config('role', %s, true)", (names.app_role,))
        row = await (await connection.execute(statement)).fetchone()
    return None if row is None else str(row[0])


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[_Connection]:
    """A connection of the login's own, for a database that the platform may not be able to open.

    Raises ``DatabaseUnreachableError``.
    """
    with translated(url):
        async with await psycopg.AsyncConnection.connect(
            url, autocommit=True, prepare_threshold=None, connect_timeout=CONNECT_TIMEOUT_SECONDS
        ) as connection:
            yield connection


async def _allowed(reading: Awaitable[T]) -> T | None:
    try:
        return await reading
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None
