"""Whether the service can answer, where something that it needs does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from psycopg import sql
from pydantic import SecretStr

from retrieval import Settings
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.domain.errors import EmbedderUnavailableError
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.surfaces.http import readiness
from retrieval.surfaces.http.caller import Service
from retrieval.surfaces.http.readiness import OK, UNKNOWN, Readiness, ReadinessCheck
from tests.support.database import SCHEMA, opened

OTHER = sql.SQL("UPDATE {}.alembic_version SET version_num = '9999'").format(sql.Identifier(SCHEMA))


class Failing(HashingEmbedder):
    """An embedder that can be down, and counts its calls."""

    is_down = False
    asked = 0

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed like the base class."""
        self.asked += 1
        if self.is_down:
            raise EmbedderUnavailableError("http://secret.example does not answer")
        return np.asarray(await super().embed(texts, role))


async def test_each_part_says_what_is_wrong_with_it(new_database: Callable[[], str], settings: Settings) -> None:
    """It reveals no internals; a healthy dependency is not checked again within a moment."""
    url, embedder, now = new_database(), Failing(), 0.0
    settings = settings.changed(database_url=SecretStr(url))
    async with Service(settings, embedder=embedder) as service:
        check = ReadinessCheck(service, lambda: now)
        assert [report.status for report in await asyncio.gather(*(check() for _ in range(3)))] == ["ready"] * 3
        assert embedder.asked == 1

        embedder.is_down = True
        assert (await check()).status == "ready"
        now = 61.0
        state = await check()
        assert (state.status, state.is_ready) == ("degraded", True)
        assert state.embedder == "the embedding service did not answer; try again in a moment"

        with opened(url) as connection:
            connection.execute(OTHER)
        now = 63.0
        state = await check()
        assert (state.status, state.is_ready, state.database) == ("not ready", False, OK)
        assert "not set up for this service" in state.schema


async def test_a_service_without_an_embedder_is_ready(database_url: str, settings: Settings) -> None:
    """It was meant so."""
    async with Service(settings.changed(database_url=SecretStr(database_url), embedder="none")) as service:
        found = await ReadinessCheck(service)()
    assert found == Readiness(OK, OK, OK, "none: searches are by words only", "none", "none")
    assert found.status == "ready"


async def test_a_database_that_is_away_says_so(settings: Settings) -> None:
    """This holds from the start; the other checks are skipped."""
    nowhere = settings.changed(database_url=SecretStr("postgresql://secret@127.0.0.1:1/none"))
    async with Service(nowhere, embedder=HashingEmbedder()) as service:
        state = await ReadinessCheck(service)()
    assert "the database cannot be reached" in state.database
    assert "secret" not in state.database
    assert state.schema == state.pool == state.embedder == state.language_model == state.reranker == UNKNOWN
    assert state.status == "not ready"


@pytest.mark.parametrize("waits_longer", [False, True])
async def test_a_pool_that_gives_no_connection_says_so(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, *, waits_longer: bool
) -> None:
    """Although the database is there, and also where the pool is waited for longer than for readiness."""
    small = settings.changed(database_url=SecretStr(database_url), pool_size=1, embedder="none")
    async with Service(small) as service:
        database = (await service.host()).database
        if waits_longer:
            monkeypatch.setattr(readiness, "DATABASE_SECONDS", 0.05)
        else:
            database._pool.timeout = 0.05  # noqa: SLF001 - opening may take longer than what is waited for here
        async with database.transaction(None):
            state = await ReadinessCheck(service)()
    assert (state.database, state.status) == (OK, "not ready")
    assert "too many requests wait" in state.pool


async def test_a_database_that_hangs_is_not_waited_for(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver waits for seconds until a hanging server has cancelled a statement; a probe does not."""
    is_over = asyncio.Event()

    async def hang(_database: object) -> None:
        try:
            await is_over.wait()
        finally:
            await is_over.wait()

    hanging = settings.changed(database_url=SecretStr(database_url), embedder="none")
    async with Service(hanging) as service:
        await service.host()
        monkeypatch.setattr(readiness, "check_revision", hang)
        monkeypatch.setattr(readiness, "DATABASE_SECONDS", 0.05)
        async with asyncio.timeout(5):
            state = await ReadinessCheck(service)()
        is_over.set()
    assert (state.database, state.status) == ("no answer within 0.05 s", "not ready")
