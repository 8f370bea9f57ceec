"""The queue of jobs, in the installation's own schema beside its tables.

Like everything else it works through a pooler in transaction mode: each statement is a transaction that sets its own
search path, and nothing stays on the session. Only listening for new jobs needs a session, and can be left out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import psycopg
from procrastinate import App, PsycopgConnector
from procrastinate.connector import Notify
from psycopg_pool import AsyncConnectionPool

from retrieval.adapters.store.database import CONNECT_TIMEOUT_SECONDS, Database
from retrieval.adapters.store.installed_sql import quote_identifier

MAKE_UP_SECONDS = 400 * 86400.0
"""How long ago a job may have been due and is still made up for, once, when a worker starts."""

_LOOK = json.dumps({"type": "job_inserted", "job_id": 0})
"""The notification that makes a worker look for jobs; it reads no more of it than the type."""

_log = logging.getLogger(__name__)

_Connection = psycopg.AsyncConnection[tuple[Any, ...]]


class _QueuePool(AsyncConnectionPool[_Connection]):
    """Connections that are handed out in a transaction which finds the queue's tables."""

    def __init__(self, *, search_path: str, **options: Any) -> None:
        super().__init__(**options)
        self._search_path = search_path

    @asynccontextmanager
    async def connection(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - the pool's own
    ) -> AsyncIterator[_Connection]:
        async with super().connection(timeout) as connection:
            await connection.execute("SELECT set_config('search_path', %s, true)", (self._search_path,))
            yield connection


class _Connector(PsycopgConnector):
    """The queue's connections, for which a notification is a hint that there may be a job, whatever it says.

    Every login of the database may send one. What is no JSON would end the worker's listening, and one that asks for
    an abort would end another's job: these requests are read from the queue's table.
    """

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        async def look(*, channel: str, payload: str) -> None:
            _log.debug("notified on %s: %.100r", channel, payload)
            await on_notification(channel=channel, payload=_LOOK)

        await super().listen_notify(look, channels)


def queue_of(database: Database, *, connections: int) -> App:
    """The queue, to be opened with ``async with app.open_async()``; it keeps at most so many connections.

    Whoever may act as the definer role may use it.
    """
    search_path = f"{quote_identifier(database.names.jobs_schema)}, pg_temp"
    connector = _Connector(
        conninfo=database.url,
        kwargs={"prepare_threshold": None, "connect_timeout": CONNECT_TIMEOUT_SECONDS},
        min_size=1,
        max_size=connections,
        timeout=CONNECT_TIMEOUT_SECONDS,
        pool_factory=partial(_QueuePool, search_path=search_path),
    )
    return App(connector=connector, periodic_defaults={"max_delay": MAKE_UP_SECONDS})
