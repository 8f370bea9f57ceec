"""Open the configured database; check its revision, and find tenants.

Imports no SQLAlchemy, because the start of a session waits for it.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installation.checks import REVISION, status_of
from retrieval.adapters.store.installation.embedded.home import default_home
from retrieval.adapters.store.installation.embedded.server import EmbeddedServer, start_embedded
from retrieval.adapters.store.replicas import READ_URLS_SETTING, Replicas
from retrieval.adapters.store.translate import EMBEDDED, URL_SETTING, server_name
from retrieval.domain.errors import ConfigurationError, SchemaRevisionError
from retrieval.settings import Settings


def described_server(settings: Settings) -> str:
    """The server, for messages, without secrets."""
    if settings.database_url is not None:
        return server_name(settings.database_url.get_secret_value())
    return f"the embedded PostgreSQL in {settings.home or default_home()}"


async def open_database(settings: Settings, stack: AsyncExitStack) -> Database:
    """The database, open until the stack is closed.

    Raises the errors of ``Database.open`` and ``start_embedded``, and ``ConfigurationError`` for replicas of a cluster.
    """
    home = settings.home or default_home()
    if settings.database_url is not None:
        url = settings.database_url.get_secret_value()
        database = await _open(settings, url)
    else:
        server = await _leased(home)
        stack.push_async_callback(asyncio.to_thread, server.close)
        try:
            database = await _open(settings, server.url, home)
        except SchemaRevisionError:
            from retrieval.adapters.store.installation import schema

            # Only the platform uses the embedded database.
            await asyncio.to_thread(schema.upgrade, server.url, settings.database_schema)
            database = await _open(settings, server.url, home)
    stack.push_async_callback(database.close)
    if settings.read_database_urls:
        if database.facts.is_distributed:
            raise ConfigurationError(
                f"{READ_URLS_SETTING} is set, and the database is a Citus cluster, whose replicas are not supported: "
                "unset it, and add nodes instead"
            )
        database.replicas = Replicas(
            database,
            [url.get_secret_value() for url in settings.read_database_urls],
            lambda url: _open(settings, url, setting=READ_URLS_SETTING),
            max_lag_seconds=settings.read_max_lag_seconds,
            wait_seconds=settings.read_wait_seconds,
        )
        stack.push_async_callback(database.replicas.aclose)
        await database.replicas.look()  # searches skip a replica that does not answer
    return database


async def _leased(home: Path) -> EmbeddedServer:
    """A lease on the embedded server.

    If the caller is cancelled, the thread waits no longer for others that start or stop the server; if it starts the
    server already, it goes on, and gives its lease back.
    """
    pool, given_up = ThreadPoolExecutor(1), threading.Event()
    starting = pool.submit(start_embedded, home, given_up=given_up)

    def give_back(started: Future[EmbeddedServer]) -> None:
        # In the pool's thread: the event loop may have ended meanwhile.
        if not started.cancelled() and started.exception() is None:
            started.result().close()

    try:
        return await asyncio.wrap_future(starting)
    except asyncio.CancelledError:
        given_up.set()
        starting.add_done_callback(give_back)
        raise
    finally:
        pool.shutdown(wait=False)


async def _open(settings: Settings, url: str, embedded: Path | None = None, setting: str = URL_SETTING) -> Database:
    async def revive() -> None:
        """Start the embedded server again if it was killed; the lease on it is still valid."""
        if embedded is not None:
            server = await asyncio.to_thread(start_embedded, embedded)
            await asyncio.to_thread(server.close)

    return await Database.open(
        url,
        settings.database_schema,
        pool_size=settings.pool_size,
        pool_timeout_seconds=settings.pool_timeout_seconds,
        is_pooled=settings.transaction_pooler,
        revive=revive if embedded is not None else None,
        setting=EMBEDDED if embedded is not None else setting,
    )


async def check_revision(database: Database) -> None:
    """Raise ``SchemaRevisionError`` if the revision has changed, and ``DatabaseError`` if the database fails."""
    rows = await database.read(None, REVISION)
    status_of(database.names.schema, rows[0][0] if rows else None).check()


async def ensure_tenant(database: Database, name: str) -> int:
    """The tenant's id; the tenant is made if it is missing."""
    return int((await database.read(None, Compiled("SELECT ensure_tenant(%(name)s)", {"name": name})))[0][0])
