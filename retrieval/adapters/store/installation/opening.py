"""The database that the settings name, opened, and whether it still has the schema that it was opened with."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installation.embedded.place import default_home
from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.adapters.store.installation.revisions import status_of
from retrieval.adapters.store.translate import server_name
from retrieval.domain.errors import SchemaRevisionError
from retrieval.settings import Settings


def told_server(settings: Settings) -> str:
    """The place of the data, for people to read, without secrets."""
    if settings.database_url is not None:
        return server_name(settings.database_url.get_secret_value())
    return f"the embedded PostgreSQL in {settings.home or default_home()}"


async def open_database(settings: Settings, stack: AsyncExitStack) -> Database:
    """The database, open until the stack is closed. Raises what ``Database.open`` and the embedded server raise."""
    home = settings.home or default_home()
    if settings.database_url is not None:
        url = settings.database_url.get_secret_value()
        database = await _connected(settings, url)
    else:
        server = await asyncio.to_thread(start_embedded, home)
        stack.push_async_callback(asyncio.to_thread, server.close)
        database = await _set_up(settings, server.url, home)
    stack.push_async_callback(database.close)
    return database


async def _set_up(settings: Settings, url: str, home: Path) -> Database:
    """The embedded database is the platform's own: nobody else would bring its schema up to date."""
    try:
        return await _connected(settings, url, home)
    except SchemaRevisionError:
        from retrieval.adapters.store.installation import schema

        await asyncio.to_thread(schema.upgrade, url, settings.database_schema)
        return await _connected(settings, url, home)


async def _connected(settings: Settings, url: str, embedded: Path | None = None) -> Database:
    async def revive() -> None:
        """Start the embedded server again, should somebody have killed it; the lease on it still holds."""
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
    )


_REVISION = Compiled("SELECT version_num FROM alembic_version")


async def check_revision(database: Database) -> None:
    """Raise ``SchemaRevisionError`` if it has another revision by now, and ``DatabaseError`` if it cannot be asked."""
    rows = await database.read(None, _REVISION)
    status_of(database.names.schema, rows[0][0] if rows else None).check()
