"""A platform on the embedded server outlives the server's sudden end."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrieval import Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder


@pytest.fixture
def home() -> Iterator[Path]:
    """A home of its own, which the server's user can enter."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def test_a_search_after_the_server_was_killed_starts_it_again(home: Path) -> None:
    """Nothing that was stored is lost, and the same handles go on."""
    settings = Settings().changed(home=home, database_url=None, database_schema="retrieval")
    async with connect(settings=settings, embedder=HashingEmbedder()) as platform:
        collection = await platform.collection("docs")
        await collection.add([{"_id": "1", "text": "the cat sat"}])
        os.kill(int((home / "data" / "postmaster.pid").read_text().split("\n", 1)[0]), signal.SIGKILL)
        assert [hit.item_id for hit in await collection.search("cat")] == ["1"]
        await collection.add([{"_id": "2", "text": "another cat"}])
        assert (await collection.info()).documents == 2
