"""Each request as it is seen from outside: one line in the log, one span of the caller's trace, no secret in either."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from fastapi import APIRouter, FastAPI
from httpx2 import ASGITransport, AsyncClient
from pydantic import SecretStr

from retrieval import Settings
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.surfaces.http.admission import Access
from retrieval.surfaces.http.app import Frame, create_app
from retrieval.surfaces.http.caller import ReadPlatform
from retrieval.surfaces.http.telemetry import Redaction, ServiceFormatter
from tests.support.database import SCHEMA
from tests.support.traces import record_spans

pytestmark = pytest.mark.asyncio(loop_scope="module")

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ROUTE = "/probe/{name}/search"

probe = APIRouter()


@probe.post(ROUTE)
async def search(name: str, platform: ReadPlatform, q: str) -> dict[str, int]:
    """A search, and what a part of the platform says meanwhile."""
    logging.getLogger("retrieval.probe").info("a part says something")
    return {"hits": len(await (await platform.collection(name, create=False)).search(q))}


@probe.post("/probe/broken")
async def broken(q: str) -> None:
    """Fail with all arguments in the message."""
    raise RuntimeError(q)


@pytest.fixture(scope="module")
def app(database_url: str) -> FastAPI:
    """The application, with test routes."""
    settings = Settings(
        tenant="telemetry", database_schema=SCHEMA, embedder="none", database_url=SecretStr(database_url)
    )
    service = create_app(settings, embedder=HashingEmbedder(), insecure_local=True)
    service.include_router(probe)
    return service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(app: FastAPI) -> AsyncIterator[AsyncClient]:
    """A client of it; there is a collection ``docs``."""
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=ASGITransport(app=app), base_url="http://localhost") as opened,
    ):
        platform = await app.state.service.host()
        await (await platform.collection("docs")).add([{"_id": "a", "text": "zweistromland"}])
        yield opened


class Lines(logging.Handler):
    """Keeps the lines that the service would write."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(ServiceFormatter(Redaction([]), as_json=True))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.lines.append(self.format(record))

    def of(self, logger: str) -> list[dict[str, object]]:
        """The lines of that logger."""
        records = [json.loads(line) for line in self.lines]
        return [line for line in records if line["logger"] == logger]


@pytest.fixture
def log_lines() -> Iterator[Lines]:
    """The lines that are logged from here on."""
    root, lines = logging.getLogger("retrieval"), Lines()
    before = root.level
    root.addHandler(lines)
    root.setLevel(logging.INFO)
    yield lines
    root.removeHandler(lines)
    root.setLevel(before)


async def test_each_request_is_one_line(client: AsyncClient, log_lines: Lines) -> None:
    """With its route as it is written, its status, how long it took, and the id that the answer told."""
    answer = await client.post("/probe/docs/search", params={"q": "zweistromland"})

    [line] = log_lines.of("retrieval.access")
    assert answer.json() == {"hits": 1}
    assert (line["method"], line["route"], line["status"]) == ("POST", ROUTE, 200)
    assert line["request_id"] == answer.headers["X-Request-ID"]
    assert isinstance(line["ms"], float)
    assert "zweistromland" not in "".join(log_lines.lines)


@pytest.mark.parametrize(
    ("path", "route", "status"),
    [
        ("/", "/", 200),
        ("/docs", "/docs", 200),
        ("/console/search", "/console/search", 200),
        ("/v1/collections/a%2Fb", "/v1/collections/{name}", 404),
    ],
)
async def test_each_page_and_any_name_has_its_route(
    client: AsyncClient, log_lines: Lines, path: str, route: str, status: int
) -> None:
    """Pages are not operations of the description, and a slash in a name changes the path on the way."""
    await client.get(path)
    assert [(line["route"], line["status"]) for line in log_lines.of("retrieval.access")] == [(route, status)]


async def test_log_lines_of_a_request_have_its_id(client: AsyncClient, log_lines: Lines) -> None:
    """Also a client's own id."""
    await client.post("/probe/docs/search", params={"q": "x"}, headers={"X-Request-ID": "mine-1"})

    assert [line["request_id"] for line in log_lines.of("retrieval.probe")] == ["mine-1"]
    assert [line["request_id"] for line in log_lines.of("retrieval.access")] == ["mine-1"]


async def test_health_checks_are_not_logged(client: AsyncClient, log_lines: Lines) -> None:
    """They come every few seconds."""
    for path in ("/livez", "/metrics"):
        await client.get(path)

    assert log_lines.of("retrieval.access") == []


async def test_unknown_paths_and_failures_are_logged(client: AsyncClient, log_lines: Lines) -> None:
    """The first has no route; the second has the error's class, but not its message."""
    await client.get("/nowhere/zweistromland")
    await client.post("/probe/broken", params={"q": "zweistromland"})

    assert [(line["route"], line["status"]) for line in log_lines.of("retrieval.access")] == [
        (None, 404),
        ("/probe/broken", 500),
    ]
    assert "RuntimeError" in "".join(log_lines.lines)
    assert "zweistromland" not in "".join(log_lines.lines)


@pytest.mark.parametrize(
    ("headers", "status", "refusal"),
    [({"Host": "elsewhere"}, 421, "misdirected"), ({"x-request-timeout": "soon"}, 422, "invalid-request")],
)
async def test_a_request_refused_before_its_route_has_the_reason(
    client: AsyncClient, log_lines: Lines, headers: dict[str, str], status: int, refusal: str
) -> None:
    """Its template is not known there, and its path may hold names; the word is that of the problem's type."""
    answer = await client.post("/probe/zweistromland/search", params={"q": "x"}, headers=headers)

    [line] = log_lines.of("retrieval.access")
    assert answer.json()["type"] == f"/problems/{refusal}"
    assert (line["route"], line["status"], line["refusal"]) == (None, status, refusal)
    assert line["message"] == f"POST (refused: {refusal}) {status}"
    assert "zweistromland" not in "".join(log_lines.lines)


async def test_a_request_is_a_span_of_the_callers_trace(client: AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """It continues W3C's ``traceparent``, and the search is part of the trace."""
    spans = record_spans(monkeypatch)
    answer = await client.post("/probe/docs/search", params={"q": "zweistromland"}, headers={"traceparent": PARENT})

    server = spans.only(f"POST {ROUTE}")
    assert server.parent is not None
    assert f"{server.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{server.parent.span_id:016x}" == "b7ad6b7169203331"
    attributes = spans.attributes_of(server.name)
    assert (attributes["http.route"], attributes["http.response.status_code"]) == (ROUTE, 200)
    assert attributes["retrieval.request_id"] == answer.headers["X-Request-ID"]
    assert "retrieval.search" in [span.name for span in spans.children_of(server)]
    assert "zweistromland" not in spans.text()


async def test_a_failed_request_has_its_status_in_the_span(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The span has no argument of the request."""
    spans = record_spans(monkeypatch)
    await client.post("/probe/broken", params={"q": "zweistromland"})

    assert spans.attributes_of("POST /probe/broken")["error.type"] == "500"
    assert "zweistromland" not in spans.text()


async def test_a_client_that_hangs_up_is_logged_as_499(app: FastAPI, log_lines: Lines) -> None:
    """No answer was sent: the application ended without one."""
    statuses = []

    async def nothing(*_: object) -> None:
        statuses.append("called")

    async def never() -> dict[str, object]:
        raise AssertionError

    async def unheard(_: object) -> None:
        raise AssertionError

    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [(b"host", b"localhost")]}
    service = app.state.service
    await Frame(nothing, access=Access(service, insecure_local=True))(scope, never, unheard)

    assert statuses == ["called"]
    assert [line["status"] for line in log_lines.of("retrieval.access")] == [499]
