"""Opening a database leaves nothing behind when it fails."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from retrieval import Settings
from retrieval.adapters.files import FileLock
from retrieval.adapters.store.installation import opening


async def test_a_cancelled_opening_gives_its_lease_on_the_embedded_server_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A thread starts the server, and has the lease only after the cancellation."""
    closed = threading.Event()

    def start(_home: Path, *, given_up: threading.Event) -> SimpleNamespace:
        assert given_up.wait(5)
        time.sleep(0.1)
        return SimpleNamespace(url="", close=closed.set)

    monkeypatch.setattr(opening, "start_embedded", start)
    settings = Settings(database_url=None, home=tmp_path)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), AsyncExitStack() as stack:
            await opening.open_database(settings, stack)
    assert not closed.is_set()
    assert await asyncio.to_thread(closed.wait, 5)


async def test_a_cancelled_opening_does_not_queue_for_the_embedded_server(tmp_path: Path) -> None:
    """Otherwise each of many openings that time out would start and stop the server before the next one."""
    settings, others = Settings(database_url=None, home=tmp_path), set(threading.enumerate())
    guard = FileLock(tmp_path / "guard.lock")
    try:
        assert guard.hold()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), AsyncExitStack() as stack:
                await opening.open_database(settings, stack)
        (waiting,) = set(threading.enumerate()) - others
        waiting.join(5)
        assert not waiting.is_alive()
    finally:
        guard.release()
