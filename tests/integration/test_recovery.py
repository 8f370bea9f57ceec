"""A platform on the embedded server outlives the server's sudden end, and so does the HTTP service."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx2 import ASGITransport, AsyncClient

from retrieval import Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.surfaces.http.app import create_app
from retrieval.surfaces.http.caller import CurrentPlatform


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A home of its own, which the server's user can enter."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def kill_server(home: Path) -> None:
    """Kill it without a warning."""
    os.kill(int((home / "data" / "postmaster.pid").read_text().split("\n", 1)[0]), signal.SIGKILL)


async def test_a_search_after_the_server_was_killed_starts_it_again(home: Path) -> None:
    """Nothing that was stored is lost, and the same handles go on."""
    settings = Settings().changed(home=home, database_url=None, database_schema="retrieval")
    async with connect(settings=settings, embedder=HashingEmbedder()) as platform:
        collection = await platform.collection("docs")
        await collection.add([{"_id": "1", "text": "the cat sat"}])
        kill_server(home)
        assert [hit.item_id for hit in await collection.search("cat")] == ["1"]
        await collection.add([{"_id": "2", "text": "another cat"}])
        assert (await collection.info()).documents == 2


async def test_the_service_starts_its_database_again(home: Path) -> None:
    """A request that finds it killed is answered like any other."""
    settings = Settings().changed(home=home, database_url=None, database_schema="retrieval")
    app = create_app(settings, embedder=HashingEmbedder(), insecure_local=True)

    @app.get("/names")
    async def names(platform: CurrentPlatform) -> list[str]:
        return [one.name for one in await platform.collections()]

    client = AsyncClient(transport=ASGITransport(app=app), base_url="http://localhost")
    async with app.router.lifespan_context(app), client:
        assert (await client.get("/names")).json() == ["docs"]
        kill_server(home)
        assert (await client.get("/names")).json() == ["docs"]
