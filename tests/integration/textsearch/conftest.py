"""A platform on a server that has the extension pg_textsearch; where there is none, tests say so and are skipped."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retrieval import Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.installation.schema import upgrade
from tests.support.database import SCHEMA
from tests.support.textsearch import NEEDED, textsearch_package, textsearch_server


@pytest.fixture(scope="session")
def textsearch_url() -> Iterator[str]:
    """A superuser's URL of the database, with schema and extension, the latter in a schema of its own."""
    package = textsearch_package()
    if package is None:
        pytest.skip(NEEDED)
    # Not pytest's own directory: root's server runs as another user, who must be able to enter.
    run = Path(tempfile.mkdtemp(prefix="retrieval-textsearch-"))
    run.chmod(0o755)
    try:
        with textsearch_server(package, run) as url:
            upgrade(url, SCHEMA)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("CREATE SCHEMA searching")
                connection.execute("CREATE EXTENSION pg_textsearch SCHEMA searching")
            yield url
    finally:
        shutil.rmtree(run, ignore_errors=True)


@pytest.fixture
async def platform(textsearch_url: str, settings: Settings) -> AsyncIterator[Platform]:
    """A platform of this test's tenant there."""
    async with connect(textsearch_url, settings=settings, embedder=HashingEmbedder()) as opened:
        yield opened


@pytest.fixture
async def admin(textsearch_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A superuser's connection that commits each statement."""
    async with await psycopg.AsyncConnection.connect(textsearch_url, autocommit=True) as opened:
        await opened.execute("SELECT set_config('search_path', %s, false)", (f'"{SCHEMA}", public, pg_temp',))
        yield opened
