"""An ingest in a process of its own that is killed on its way."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from retrieval import Settings, connect, read_items
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.database import Database
from tests.support.database import SCHEMA
from tests.support.forked_program import forking


def ingest_until(url: str, tenant: str, path: str, last: int) -> int:
    """Ingest the file until soon after the ``last`` transaction began; gives the exit code, -9 if it was killed."""
    run = forking().Process(target=_run, args=(url, tenant, path, last))
    run.start()
    run.join()
    return run.exitcode or 0


def _run(url: str, tenant: str, path: str, last: int) -> None:
    begun = 0
    settings = Database._settings  # noqa: SLF001 - every transaction begins with it

    def counted(self: Database, *arguments: Any) -> Any:
        nonlocal begun
        begun += 1
        if begun == last:
            # In the middle of any next transaction.
            asyncio.get_running_loop().call_later(0.004, os.kill, os.getpid(), signal.SIGKILL)
        return settings(self, *arguments)

    Database._settings = counted  # type: ignore[assignment, method-assign]  # noqa: SLF001 - in this process alone
    asyncio.run(_ingest(url, tenant, path))


async def _ingest(url: str, tenant: str, path: str) -> None:
    settings = Settings(tenant=tenant, database_schema=SCHEMA, embedder="none")
    async with connect(url, settings=settings, embedder=HashingEmbedder(64)) as platform:
        collection = await platform.collection("docs")
        await collection.ingest(read_items(path), prune=True)
