"""A service without keys serves this machine alone."""

from __future__ import annotations

import pytest
from httpx2 import ASGITransport, AsyncClient
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from retrieval.surfaces.http.app import check_local
from retrieval.surfaces.http.problems import MisdirectedError


async def local(scope: Scope, receive: Receive, send: Send) -> None:
    """Whether the request counts as one of this machine."""
    try:
        check_local(scope)
    except MisdirectedError as refused:
        await PlainTextResponse(str(refused), refused.status)(scope, receive, send)
    else:
        await PlainTextResponse("served")(scope, receive, send)


async def status(url: str = "http://127.0.0.1:8000", **headers: str) -> int:
    """The status of the answer to a request for that URL."""
    async with AsyncClient(transport=ASGITransport(app=local), base_url=url) as client:
        return (await client.get("/", headers=headers)).status_code


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "localhost:80", "LOCALHOST", "[::1]:8000"])
async def test_programs_and_pages_of_this_machine_are_served(host: str) -> None:
    """By any of its names for itself, on any port."""
    assert await status(Host=host) == 200
    assert await status(Host=host, Origin=f"http://{host}") == 200


@pytest.mark.parametrize(
    "host",
    [
        *("page.example", "127.0.0.1.page.example", "10.0.0.1", "", "[::", "localhost.example"),
        *("evil@localhost", "localhost/evil", "localhost#evil", "localhost:80:80", "localhost,evil", "local host"),
    ],
)
async def test_a_name_that_a_page_could_have_given_this_address_is_refused(host: str) -> None:
    """A browser sends the page's name, whatever address it leads to."""
    assert await status(Host=host) == 421


@pytest.mark.parametrize(
    "origin",
    [
        "https://page.example",
        "null",
        "http://localhost.example",
        "file://",
        "",
        "http://a@localhost",
        "http://localhost/",
    ],
)
async def test_a_page_of_another_host_is_refused(origin: str) -> None:
    """Also one that a browser would not let read the answer: it would have been done by then."""
    assert await status(Origin=origin) == 421


@pytest.mark.parametrize("name", ["Host", "Origin"])
async def test_two_contradictory_headers_are_refused(name: str) -> None:
    """Also where both would do."""
    async with AsyncClient(transport=ASGITransport(app=local), base_url="http://localhost") as client:
        headers = {"Host": "localhost", "Origin": "http://localhost"}
        doubled = [*headers.items(), (name, headers[name])]
        assert (await client.get("/", headers=doubled)).status_code == 421
