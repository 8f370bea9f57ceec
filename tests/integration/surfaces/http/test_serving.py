"""The service on a socket: clients that hang up, the end of a run, a database that comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from fastapi import FastAPI
from httpx2 import AsyncClient, Response
from pydantic import SecretStr

from retrieval import Settings
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.compiled import Compiled
from retrieval.domain.errors import ConfigurationError
from retrieval.surfaces.http.app import create_app, run_service
from retrieval.surfaces.http.caller import ReadPlatform
from tests.support.away import Away
from tests.support.serving import Served, served

SECONDS = 60
"""The longest that a client waits: a busy machine may take seconds for anything."""

SLEEPING = "SELECT pg_sleep(60), 'over http'"


def application(settings: Settings) -> FastAPI:
    """The service, with two routes of the test's own."""
    app = create_app(settings, embedder=HashingEmbedder(), insecure_local=True)

    @app.get("/sleep")
    async def sleep(platform: ReadPlatform) -> None:
        await platform.database.read(platform.tenant_id, Compiled(SLEEPING))

    @app.get("/names")
    async def names(platform: ReadPlatform) -> list[str]:
        return [collection.name for collection in await platform.collections()]

    return app


async def asleep(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether a request of this test sleeps in the database."""
    cursor = await connection.execute(
        "SELECT FROM pg_stat_activity WHERE state = 'active' AND query = %s AND datname = current_database()",
        (SLEEPING,),
    )
    return await cursor.fetchone() is not None


async def test_a_client_that_hangs_up_takes_its_query_along(database_url: str, settings: Settings) -> None:
    """The statement ends on the server, and the place of the request is free."""
    app = application(settings.changed(database_url=SecretStr(database_url)))
    async with (
        asyncio.timeout(SECONDS),
        await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other,
        served(app) as service,
    ):
        _, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(b"GET /sleep HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        while not await asleep(other):
            pass
        assert app.state.service.load.in_flight == 1
        writer.close()
        while await asleep(other):
            pass
        while app.state.service.load.in_flight:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0)


async def test_a_request_that_is_late_ends_in_the_database(database_url: str, settings: Settings) -> None:
    """With 504; and the connection serves the next one."""
    app = application(settings.changed(database_url=SecretStr(database_url), pool_size=1))
    async with served(app) as service, AsyncClient(base_url=service.url, timeout=SECONDS) as client:
        late = await client.get("/sleep", headers={"X-Request-Timeout": "0.05"})
        assert (late.status_code, late.json()["type"]) == (504, "/problems/deadline")
        assert (await client.get("/names")).json() == []


async def test_a_late_transaction_of_many_quick_statements_ends_too(database_url: str, settings: Settings) -> None:
    """Each of them is in time for itself; the connection serves the next request."""
    app = application(settings.changed(database_url=SecretStr(database_url), pool_size=1))

    @app.get("/many")
    async def many(platform: ReadPlatform) -> None:
        async with platform.database.transaction(platform.tenant_id) as connection:
            while True:
                await connection.execute("SELECT pg_sleep(0.005)")

    async with served(app) as service, AsyncClient(base_url=service.url, timeout=SECONDS) as client:
        late = await client.get("/many", headers={"X-Request-Timeout": "0.05"})
        assert (late.status_code, late.json()["type"]) == (504, "/problems/deadline")
        assert (await client.get("/names")).json() == []


async def test_a_service_answers_open_requests_before_it_ends(database_url: str, settings: Settings) -> None:
    """It takes no new connections meanwhile."""
    app = application(settings.changed(database_url=SecretStr(database_url)))
    entered, go_on = asyncio.Event(), asyncio.Event()

    @app.get("/wait")
    async def wait() -> str:
        entered.set()
        await go_on.wait()
        return "answered"

    async with served(app) as service, AsyncClient(base_url=service.url, timeout=SECONDS) as client:
        waiting = asyncio.create_task(client.get("/wait"))
        await entered.wait()
        service.stop.set()
        await _refuses(service)
        assert not service.ended.done()
        go_on.set()
        assert (await waiting).json() == "answered"
        await service.ended


async def test_a_stream_ends_when_the_service_does(database_url: str, settings: Settings) -> None:
    """With the results of the lines that arrived, and the reason; its client would send for as long as it likes."""
    app = application(settings.changed(database_url=SecretStr(database_url)))
    async with served(app) as service, AsyncClient(base_url=service.url, timeout=SECONDS) as client:
        await client.put("/v1/collections/docs")
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(
            b"POST /v1/collections/docs/items/bulk HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/x-ndjson\r\nContent-Length: 1000\r\n\r\n"
            b'{"id": "a", "title": "disk full"}\n'
        )
        await reader.readuntil(b'"result":"added"}\n')
        service.stop.set()
        async with asyncio.timeout(SECONDS):
            rest = await reader.read()
            await service.ended
        writer.close()
    assert b'"added":1' in rest
    assert b'"type":"/problems/stopping"' in rest
    assert rest.endswith(b"0\r\n\r\n")


async def _refuses(service: Served) -> None:
    """Return once it takes no connections."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", service.port)
            writer.close()
            await writer.wait_closed()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:
            continue  # the connection arrived while the service stopped listening


def is_away(answer: Response) -> bool:
    """Whether the answer says that the database is; then also when to come again."""
    if answer.status_code == 200:
        return False
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/database-unreachable")
    assert int(answer.headers["retry-after"]) > 0
    return True


async def test_the_service_outlives_its_database(
    server_url: str, new_database: Callable[[], str], settings: Settings
) -> None:
    """It starts while the database is away, serves once it is there, and again when it was away meanwhile."""
    url = new_database()
    away = Away(server_url, urlsplit(url).path.lstrip("/"))
    app = application(settings.changed(database_url=SecretStr(url), pool_timeout_seconds=2))
    with away():
        service = served(app)
        opened = await service.__aenter__()
        client = AsyncClient(base_url=opened.url, timeout=SECONDS)
        assert is_away(await client.get("/names"))
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/livez")).status_code == 200
    assert not is_away(await client.get("/names"))
    with away():
        assert is_away(await client.get("/names"))
    assert not is_away(await client.get("/names"))
    await client.aclose()
    await service.__aexit__(None, None, None)


async def test_settings_that_cannot_work_end_the_run(settings: Settings) -> None:
    """With the line that says which, rather than a service that never answers."""
    url = SecretStr("postgresql://user:p@ss/word@127.0.0.1:1/none")
    with pytest.raises(ConfigurationError, match="RETRIEVAL_DATABASE_URL is not a URL"):
        await run_service(
            settings.changed(database_url=url), "127.0.0.1", 0, asyncio.Event(), lambda _: None, insecure_local=True
        )


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "server.example"])  # noqa: S104 - it is refused
async def test_a_service_without_keys_listens_to_this_machine_alone(settings: Settings, host: str) -> None:
    """Before anything is opened."""
    with pytest.raises(ConfigurationError, match="retrieval keys create"):
        await run_service(settings, host, 0, asyncio.Event(), lambda _: None, insecure_local=True)
