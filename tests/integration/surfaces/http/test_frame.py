"""The frame of every request: over ASGI, on an application of three routes and no database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, MutableMapping

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from httpx2 import ASGITransport, AsyncClient, Response
from starlette.datastructures import Headers

from retrieval import Settings
from retrieval.adapters.store.deadline import current_deadline, late
from retrieval.domain.api_key import EVERY_SCOPE, Caller
from retrieval.domain.errors import DatabaseUnreachableError, RetrievalError, UnknownCollectionError
from retrieval.surfaces.http.admission import Access
from retrieval.surfaces.http.answers import on_error
from retrieval.surfaces.http.app import Frame
from retrieval.surfaces.http.caller import Service
from retrieval.surfaces.http.connection import EXTENSION
from retrieval.surfaces.http.telemetry import current_request_id

LIMIT = 1024
HOST = (b"host", b"localhost")


def without_keys(service: Service) -> Access:
    """The access that admits every caller."""
    return Access(service, insecure_local=True)


class World:
    """An application and its client."""

    def __init__(
        self, *, seconds: float = 30.0, requests: int = 10, access: Callable[[Service], Access] = without_keys
    ) -> None:
        service = Service(
            Settings().changed(
                http_max_requests=requests,
                http_deadline_seconds=seconds,
                http_max_body_bytes=LIMIT,
                http_max_bulk_bytes=10 * LIMIT,
            )
        )
        self.load = service.load
        self.entered, self.go_on = asyncio.Event(), asyncio.Event()
        self.ended_by: BaseException | None = None
        self.app = FastAPI()
        self.app.add_exception_handler(RetrievalError, on_error)
        self.app.add_middleware(Frame, access=access(service))
        self.app.get("/errors/{which}")(self._raise)
        self.app.get("/wait")(self._wait)
        self.app.get("/breaks")(self._break)
        self.app.get("/livez")(self._alive)
        self.app.post("/length")(self._length)
        self.app.post("/v1/collections/a/items/bulk")(self._length)
        self.client = AsyncClient(transport=ASGITransport(app=self.app), base_url="http://localhost")

    async def _raise(self, which: str) -> None:
        errors = {"unknown": UnknownCollectionError("there is no collection 'a'"), "late": late()}
        raise errors.get(which) or (
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

    async def _length(self, request: Request) -> int:
        return len(await request.body())


def bare(path: str) -> dict[str, object]:
    """The ASGI scope of a request."""
    scope: dict[str, object] = {"type": "http", "http_version": "1.1", "method": "GET", "headers": [HOST]}
    return {**scope, "path": path, "raw_path": path.encode(), "query_string": b""}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """One that takes ten requests at a time, of a hundred bytes."""
    opened = World()
    async with opened.client:
        yield opened


def problem(answer: Response) -> str:
    """The type of the problem, after a check of its form."""
    assert answer.headers["content-type"] == "application/problem+json"
    payload = answer.json()
    assert payload["status"] == answer.status_code
    assert payload["request_id"] == answer.headers["x-request-id"]
    return str(payload["type"])


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
    """This includes unexpected errors; none reveals internals."""
    answer = await world.client.get(f"/errors/{which}")
    assert (answer.status_code, problem(answer)) == (status, type_)
    assert "secret" not in answer.text


async def test_errors_of_the_service_are_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The log has the details that the client does not get; the client's own mistakes are not logged."""
    with caplog.at_level(logging.INFO, "retrieval"):
        await world.client.get("/errors/unknown")
        assert {record.name for record in caplog.records if record.name.startswith("retrieval")} == {"retrieval.access"}
        await world.client.get("/errors/away")
    assert "cannot reach secret" in caplog.text


async def test_an_error_within_an_answer_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The client sees only that the answer ends too early."""

    async def send(message: MutableMapping[str, object]) -> None:
        pass

    with caplog.at_level(logging.INFO, "retrieval"):
        await world.app(bare("/breaks"), never, send)
    assert "in the midst" in caplog.text


async def test_a_request_keeps_the_id_that_it_brings(world: World) -> None:
    """A valid id is kept; otherwise the request gets a new one."""
    world.go_on.set()
    answer = await world.client.get("/wait", headers={"X-Request-ID": "web-42"})
    assert answer.json()["id"] == answer.headers["x-request-id"] == "web-42"
    ids = [(await world.client.get("/wait", headers={"X-Request-ID": "a\tb"})).json()["id"] for _ in range(2)]
    assert len({*ids, "a\tb"}) == 3


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large_is_refused(world: World, *, chunked: bool) -> None:
    """This applies with and without a content length; a body of exactly the limit is accepted."""

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


async def test_a_stream_that_is_refused_gets_a_whole_answer() -> None:
    """Without a key, before its body is read."""
    world = World(access=lambda service: Access(service, insecure_local=False))
    async with world.client as client:
        answer = await client.post("/v1/collections/a/items/bulk", content=b"x")
    assert (answer.status_code, problem(answer)) == (401, "/problems/authentication")


async def test_an_excess_request_is_refused_with_retry_after() -> None:
    """The refusal is immediate; probes are not refused, and afterwards requests are accepted again."""
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

    async def caller(self, headers: Headers) -> tuple[Caller, None]:
        """Admit every caller."""
        return Caller("tenant", EVERY_SCOPE, headers["x-api-key"]), None


async def test_a_key_leaves_room_for_others() -> None:
    """A key with as many requests in flight as there are free slots is refused for now."""
    world = World(requests=2, access=lambda service: Keyed(service, insecure_local=True))
    world.client.headers["X-API-Key"] = "a"
    async with world.client as client:
        waiting = asyncio.create_task(client.get("/wait"))
        await world.entered.wait()
        answer = await client.get("/errors/unknown")
        assert (answer.status_code, problem(answer)) == (503, "/problems/overloaded")
        assert answer.headers["retry-after"] == "1"
        assert (await client.get("/errors/unknown", headers={"X-API-Key": "b"})).status_code == 404
        world.go_on.set()
        assert (await waiting).status_code == 200
        assert (await client.get("/errors/unknown")).status_code == 404
    assert (world.load.in_flight, world.load.shares) == (0, {})


async def test_requests_without_a_key_take_no_place() -> None:
    """Slow or repeated requests for the description take no place of other requests."""
    world = World(requests=1)
    async with world.client as client:
        waiting = asyncio.create_task(client.get("/wait"))
        await world.entered.wait()
        assert (await client.get("/openapi.json")).status_code == 200
        world.go_on.set()
        await waiting


class Cut:
    """The connection of a request, without a socket."""

    def __init__(self) -> None:
        self.is_lost = False
        self.on_lost: Callable[[], None] | None = None
        self.dropped = asyncio.Event()

    def abort(self) -> None:
        """Drop it."""
        self.dropped.set()


async def test_an_unread_answer_takes_no_place_and_is_dropped_in_time() -> None:
    """The place is free once the answer begins; the connection ends with the time of the request."""
    world, line, reading = World(seconds=0.01), Cut(), asyncio.Event()
    headers_sent: list[str] = []

    async def send(message: MutableMapping[str, object]) -> None:
        headers_sent.append(str(message["type"]))
        assert world.load.in_flight == 0
        await reading.wait()

    async with asyncio.timeout(60):
        await world.app({**bare("/errors/unknown"), "extensions": {EXTENSION: {"connection": line}}}, never, send)
    assert headers_sent == ["http.response.start"]
    assert line.dropped.is_set()


async def never() -> dict[str, object]:
    """Nothing more comes."""
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_client_that_hangs_up_ends_its_request(world: World, *, is_lost: bool) -> None:
    """While it is answered, or before that began; nothing is sent any more, and its body need not be read."""
    line = Cut()
    line.is_lost = is_lost

    async def send(message: MutableMapping[str, object]) -> None:
        raise AssertionError(message)

    scope = {
        **bare("/wait"),
        "headers": [HOST, (b"content-length", b"3")],
        "extensions": {EXTENSION: {"connection": line}},
    }
    async with asyncio.timeout(60):
        answering = asyncio.create_task(world.app(scope, never, send))
        if not is_lost:
            await world.entered.wait()
            assert line.on_lost is not None
            line.on_lost()
        await answering
    assert isinstance(world.ended_by, asyncio.CancelledError) != is_lost or world.entered.is_set()
    assert world.load.in_flight == 0


async def test_a_request_that_takes_too_long_is_ended(world: World) -> None:
    """The client's own limit applies, and the handler is cancelled."""
    answer = await world.client.get("/wait", headers={"X-Request-Timeout": "0.01"})
    assert (answer.status_code, problem(answer)) == (504, "/problems/deadline")
    assert isinstance(world.ended_by, asyncio.CancelledError)
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_a_request_that_takes_too_long_before_its_body_is_read_is_not_the_clients_fault(world: World) -> None:
    """As where the database does not answer the look-up of its key."""
    answer = await world.client.request("GET", "/wait", content=b"x", headers={"X-Request-Timeout": "0.01"})
    assert (answer.status_code, problem(answer)) == (504, "/problems/deadline")


async def test_a_request_may_not_ask_for_more_time_than_there_is() -> None:
    """The service's own limit applies."""
    world = World(seconds=5.0)
    world.go_on.set()
    async with world.client as client:
        for timeout, most in (("1", 1000), ("3600", 5000)):
            answer = await client.get("/wait", headers={"X-Request-Timeout": timeout})
            assert most / 2 < answer.json()["milliseconds"] <= most


@pytest.mark.parametrize("header", ["soon", "0", "-1", "nan", ""])
async def test_an_invalid_time_is_refused(world: World, header: str) -> None:
    """With how to write one."""
    answer = await world.client.get("/wait", headers={"X-Request-Timeout": header})
    assert (answer.status_code, problem(answer)) == (422, "/problems/invalid-request")
    assert "X-Request-Timeout" in answer.json()["detail"]


async def test_a_body_that_does_not_arrive_in_time_is_given_up(world: World) -> None:
    """It is the client that was slow: 408."""

    async def parts() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    answer = await world.client.post("/length", content=parts(), headers={"X-Request-Timeout": "0.01"})
    assert (answer.status_code, problem(answer)) == (408, "/problems/body-timeout")
