"""What happens around every request: over ASGI, on an application of three routes and no database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, MutableMapping

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, StreamingResponse
from httpx2 import ASGITransport, AsyncClient, Response
from starlette.datastructures import Headers

from retrieval import Settings
from retrieval.adapters.store.deadline import current_deadline, late
from retrieval.domain.api_key import EVERY_SCOPE, Caller
from retrieval.domain.errors import DatabaseUnreachableError, RetrievalError, UnknownCollectionError
from retrieval.surfaces.http import connection as exchange
from retrieval.surfaces.http.admission import Access, Admission
from retrieval.surfaces.http.answers import on_error
from retrieval.surfaces.http.app import Frame
from retrieval.surfaces.http.connection import extensions
from retrieval.surfaces.http.limits import Limits, Load
from retrieval.surfaces.http.service import Service
from retrieval.surfaces.http.telemetry import current_request_id

LIMIT = 100


class World:
    """An application and its client."""

    def __init__(self, *, seconds: float = 30.0, requests: int = 10) -> None:
        self.load = Load(requests)
        self.entered, self.go_on = asyncio.Event(), asyncio.Event()
        self.ended_by: BaseException | None = None
        self.app = FastAPI()
        self.app.add_exception_handler(RetrievalError, on_error)
        self.app.add_middleware(
            Frame,
            limits=Limits(body_bytes=LIMIT, search_bytes=LIMIT, bulk_bytes=10 * LIMIT, seconds=seconds),
            load=self.load,
        )
        self.app.get("/errors/{which}")(self._raise)
        self.app.get("/wait")(self._wait)
        self.app.get("/breaks")(self._break)
        self.app.get("/livez")(self._alive)
        self.app.add_route("/late", self._late, methods=["POST"])
        self.app.post("/length")(self._length)
        self.app.post("/v1/collections/a/items/bulk")(self._length)
        self.client = AsyncClient(transport=ASGITransport(app=self.app), base_url="http://localhost")

    async def _raise(self, which: str) -> None:
        known = {"unknown": UnknownCollectionError("there is no collection 'a'"), "late": late()}
        raise known.get(which) or (
            DatabaseUnreachableError("cannot reach secret") if which == "away" else KeyError("secret")
        )

    async def _wait(self) -> dict[str, object]:
        self.entered.set()
        try:
            await self.go_on.wait()
        except BaseException as error:
            self.ended_by = error
            raise
        until = current_deadline()
        return {"id": current_request_id(), "milliseconds": 0 if until is None else until.milliseconds()}

    async def _break(self) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"x"
            raise KeyError("in the midst")

        return StreamingResponse(parts())

    async def _alive(self) -> str:
        return "alive"

    async def _late(self, request: Request) -> PlainTextResponse:
        await self.go_on.wait()
        return PlainTextResponse(str(len(await request.body())))

    async def _length(self, request: Request) -> int:
        return len(await request.body())


def bare(path: str) -> dict[str, object]:
    """What a server of ASGI tells of a request."""
    scope: dict[str, object] = {"type": "http", "http_version": "1.1", "method": "GET", "headers": []}
    return {**scope, "path": path, "raw_path": path.encode(), "query_string": b""}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """One that takes ten requests at a time, of a hundred bytes."""
    made = World()
    async with made.client:
        yield made


def problem(answer: Response) -> str:
    """The type of the problem, which has to be told as one."""
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == answer.status_code
    assert told["request_id"] == answer.headers["x-request-id"]
    return str(told["type"])


@pytest.mark.parametrize(
    ("which", "status", "type_"),
    [
        ("unknown", 404, "/problems/unknown-collection"),
        ("away", 503, "/problems/database-unreachable"),
        ("late", 504, "/problems/deadline"),
        ("bug", 500, "/problems/internal"),
    ],
)
async def test_every_error_is_a_problem_document(world: World, which: str, status: int, type_: str) -> None:
    """Also one that nobody expected; and none tells of the inside."""
    answer = await world.client.get(f"/errors/{which}")
    assert (answer.status_code, problem(answer)) == (status, type_)
    assert "secret" not in answer.text


async def test_what_the_client_cannot_mend_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """With what the client is not told; what it can mend is not."""
    with caplog.at_level(logging.INFO, "retrieval"):
        await world.client.get("/errors/unknown")
        assert not [record for record in caplog.records if record.name.startswith("retrieval")]
        await world.client.get("/errors/away")
    assert "cannot reach secret" in caplog.text


async def test_an_error_within_an_answer_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The client sees only that the answer ends too early."""

    async def receive() -> dict[str, object]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: MutableMapping[str, object]) -> None:
        pass

    with caplog.at_level(logging.INFO, "retrieval"):
        await world.app(bare("/breaks"), receive, send)
    assert "in the midst" in caplog.text


async def test_a_request_keeps_the_id_that_it_brings(world: World) -> None:
    """Where that can stand in a log; otherwise it gets one of its own."""
    world.go_on.set()
    kept = await world.client.get("/wait", headers={"X-Request-ID": "web-42"})
    assert kept.json()["id"] == kept.headers["x-request-id"] == "web-42"
    made = [(await world.client.get("/wait", headers={"X-Request-ID": "a\tb"})).json()["id"] for _ in range(2)]
    assert len({*made, "a\tb"}) == 3


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large_is_refused(world: World, *, chunked: bool) -> None:
    """Whether or not it says beforehand how large it is; one that just fits is taken."""

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(LIMIT + 1):
            yield b"x"

    answer = await world.client.post("/length", content=parts() if chunked else b"x" * (LIMIT + 1))
    assert (answer.status_code, problem(answer)) == (413, "/problems/body-too-large")
    assert (await world.client.post("/length", content=b"x" * LIMIT)).json() == LIMIT


async def test_a_stream_of_items_may_be_longer(world: World) -> None:
    """For it is never held at once."""
    assert (await world.client.post("/v1/collections/a/items/bulk", content=b"x" * 5 * LIMIT)).json() == 5 * LIMIT
    assert (await world.client.post("/v1/collections/a/items/bulk", content=b"x" * 11 * LIMIT)).status_code == 413


async def test_what_comes_beside_too_many_is_told_to_come_again() -> None:
    """At once, and not what tells how the service is; then there is room again."""
    world = World(requests=1)
    async with world.client as client:
        waiting = asyncio.create_task(client.get("/wait"))
        await world.entered.wait()
        answer = await client.get("/wait")
        assert (answer.status_code, problem(answer)) == (503, "/problems/overloaded")
        assert answer.headers["retry-after"] == "1"
        assert (await client.get("/livez")).status_code == 200
        world.go_on.set()
        assert (await waiting).status_code == 200
        assert (await client.get("/wait")).status_code == 200
    assert (world.load.in_flight, world.load.shed) == (0, 1)


class Keyed(Access):
    """Every key lets in."""

    async def caller(self, headers: Headers, address: str) -> tuple[Caller, None]:
        """Whoever asks."""
        del address
        return Caller("tenant", EVERY_SCOPE, headers["x-api-key"]), None


async def test_a_key_leaves_room_for_others(settings: Settings) -> None:
    """Who has as many requests being answered as there is room for others is told to come again."""
    world = World()
    access, load = Keyed(Service(settings), insecure_local=True), Load(2)
    limits = Limits(body_bytes=LIMIT, search_bytes=LIMIT, bulk_bytes=LIMIT, seconds=30.0)
    transport = ASGITransport(app=Frame(Admission(world.app, access=access), limits=limits, load=load))
    async with AsyncClient(transport=transport, base_url="http://localhost", headers={"X-API-Key": "a"}) as client:
        waiting = asyncio.create_task(client.get("/wait"))
        await world.entered.wait()
        answer = await client.get("/errors/unknown")
        assert (answer.status_code, problem(answer)) == (503, "/problems/overloaded")
        assert answer.headers["retry-after"] == "1"
        assert (await client.get("/errors/unknown", headers={"X-API-Key": "b"})).status_code == 404
        world.go_on.set()
        assert (await waiting).status_code == 200
        assert (await client.get("/errors/unknown")).status_code == 404
    assert (load.in_flight, load.shares) == (0, {})


async def test_what_needs_no_key_takes_no_place() -> None:
    """Whoever reads the description slowly, or asks for it a hundred times, takes no place of others."""
    world = World(requests=1)
    async with world.client as client:
        waiting = asyncio.create_task(client.get("/wait"))
        await world.entered.wait()
        assert (await client.get("/openapi.json")).status_code == 200
        world.go_on.set()
        await waiting


async def test_an_answer_that_nobody_reads_holds_no_place_and_is_dropped_in_time() -> None:
    """The place is free once the whole answer is known; the connection ends with the time of the request."""
    world, reading, dropped = World(seconds=0.01), asyncio.Event(), asyncio.Event()
    sent: list[str] = []

    async def receive() -> dict[str, object]:
        await reading.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, object]) -> None:
        sent.append(str(message["type"]))
        assert world.load.in_flight == 0
        await reading.wait()

    scope = {**bare("/errors/unknown"), "extensions": extensions(dropped.set)}
    async with asyncio.timeout(60):
        await world.app(scope, receive, send)
    assert sent == ["http.response.start"]
    assert dropped.is_set()


async def test_a_request_that_takes_too_long_is_ended(world: World) -> None:
    """By the time that it asks for itself, and its handler is told."""
    answer = await world.client.get("/wait", headers={"X-Request-Timeout": "0.01"})
    assert (answer.status_code, problem(answer)) == (504, "/problems/deadline")
    assert isinstance(world.ended_by, asyncio.CancelledError)
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_a_request_may_not_ask_for_more_time_than_there_is() -> None:
    """The service's own limit stands."""
    world = World(seconds=5.0)
    world.go_on.set()
    async with world.client as client:
        for asked, most in (("1", 1000), ("3600", 5000)):
            answer = await client.get("/wait", headers={"X-Request-Timeout": asked})
            assert most / 2 < answer.json()["milliseconds"] <= most


@pytest.mark.parametrize("asked", ["soon", "0", "-1", "nan", ""])
async def test_a_time_that_is_none_is_refused(world: World, asked: str) -> None:
    """With how to write one."""
    answer = await world.client.get("/wait", headers={"X-Request-Timeout": asked})
    assert (answer.status_code, problem(answer)) == (422, "/problems/invalid-request")
    assert "X-Request-Timeout" in answer.json()["detail"]


@pytest.mark.parametrize("headers", [{"X-Request-Timeout": "0.01"}, {}])
async def test_a_body_that_does_not_arrive_in_time_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    """It is the client that was slow: 408. It has less time than the whole request."""
    if not headers:
        monkeypatch.setattr(exchange, "BODY_SECONDS", 0.01)

    async def parts() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    answer = await world.client.post("/length", content=parts(), headers=headers)
    assert (answer.status_code, problem(answer)) == (408, "/problems/body-timeout")


async def test_a_client_that_hangs_up_is_noticed_also_where_nobody_reads_its_body(world: World) -> None:
    """Its handler is ended."""
    parts: list[dict[str, object]] = [{"type": "http.request", "body": b"x", "more_body": True}] * 2
    parts.append({"type": "http.disconnect"})

    async def receive() -> dict[str, object]:
        return parts.pop(0)

    async def send(message: MutableMapping[str, object]) -> None:
        raise AssertionError(message)

    scope = {**bare("/wait"), "headers": [(b"content-length", b"3")]}
    async with asyncio.timeout(60):
        await world.app(scope, receive, send)
    assert isinstance(world.ended_by, asyncio.CancelledError)


async def test_a_body_that_is_read_late_is_whole(world: World) -> None:
    """What came while the application did something else was held for it."""
    left = [b"a", b"b", b"c", b"d", b"e", b""]
    sent: list[MutableMapping[str, object]] = []

    async def receive() -> dict[str, object]:
        if not left:
            await asyncio.Event().wait()
        part = left.pop(0)
        if len(left) == 6 - exchange.HELD_PARTS:
            world.go_on.set()
        return {"type": "http.request", "body": part, "more_body": bool(left)}

    async def send(message: MutableMapping[str, object]) -> None:
        sent.append(message)

    scope = {**bare("/late"), "method": "POST", "headers": [(b"transfer-encoding", b"chunked")]}
    async with asyncio.timeout(60):
        await world.app(scope, receive, send)
    assert sent[-1]["body"] == b"5"
