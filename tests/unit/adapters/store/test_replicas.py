"""What a search may cost if a replica misbehaves."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.replicas import Replicas, reading_after

WAIT_SECONDS = 0.1


class Server:
    """A server at a position, or one that hangs and takes long to cancel, as a suspended one does."""

    def __init__(self, position: str) -> None:
        self.position = position
        self.hangs = False

    async def read(self, _tenant: int | None, statement: Compiled) -> list[tuple[Any, ...]]:
        """Answer a query for the position."""
        if self.hangs:
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(2)
        if "pg_last_wal_replay_lsn" in statement.text:
            return [(True, self.position, 1)]
        return [(1 if "pg_control_system" in statement.text else self.position,)]

    async def close(self) -> None:
        """Nothing to close."""


async def test_a_search_waits_no_longer_for_a_replica_that_hangs() -> None:
    """Cancelling its query would take longer than the time that the search may wait."""
    primary, replica = Server("0/10"), Server("0/10")

    async def opened(_url: str) -> Database:
        return cast(Database, replica)

    replicas = Replicas(
        cast(Database, primary), ["postgresql://replica/x"], opened, max_lag_seconds=60, wait_seconds=WAIT_SECONDS
    )
    await replicas.look()
    assert await replicas.chosen() is not None
    replica.hangs = True
    began = time.monotonic()
    with reading_after("0/20"):
        assert await replicas.chosen() is None
    assert WAIT_SECONDS <= time.monotonic() - began < 10 * WAIT_SECONDS
