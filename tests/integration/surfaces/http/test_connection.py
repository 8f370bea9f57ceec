"""Limits of a connection before its client is known: the size of the header block, and the time for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import pytest_asyncio
from pydantic import SecretStr

from retrieval import Settings
from retrieval.surfaces.http.app import create_app
from retrieval.surfaces.http.connection import HEAD_BYTES
from tests.support.serving import Served, served

GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"POST /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service() -> AsyncIterator[Served]:
    """A service whose database is away: none is needed here."""
    settings = Settings(
        embedder="none",
        database_url=SecretStr("postgresql://127.0.0.1:1/none"),
        http_cors_origins=("https://app.example",),
    )
    async with served(create_app(settings, insecure_local=True)) as running:
        yield running


async def answers(service: Served, *parts: bytes, ends: bool = True) -> bytes:
    """The received bytes until the service closes the connection, or the client has ended its part."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if ends:
            return await reader.readuntil(b"}")
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def check_no_id(answer: bytes) -> None:
    """The refusal of a connection names no request, as docs/reference/errors.md says."""
    head, body = answer.split(b"\r\n\r\n", 1)
    assert set(json.loads(body)) == {"type", "title", "status", "detail"}
    assert b"x-request-id" not in head.lower()


async def test_a_head_that_is_too_large_is_refused(service: Served) -> None:
    """In one header, in many, or in a header behind a body; a header block of exactly the limit is accepted.

    A body behind it does not count.
    """
    for head in (
        GET + b"X-A: " + b"a" * HEAD_BYTES + b"\r\n\r\n",
        GET + b"X-A: a\r\n" * (HEAD_BYTES // 8) + b"\r\n",
        GET + b"X-A: " + b"a" * 4 * HEAD_BYTES,
    ):
        answer = await answers(service, head, ends=False)
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert b"application/problem+json" in answer
        check_no_id(answer)
    begin, end = GET + b"Content-Length: 90000\r\nX-A: ", b"\r\n\r\n"
    fits = begin + b"a" * (HEAD_BYTES - len(begin) - len(end)) + end
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    for part in (fits[:1000], fits[1000:] + b"b" * 90_000):
        writer.write(part)
        await asyncio.sleep(0.05)
    assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_trailers_have_the_same_limit(service: Served) -> None:
    """They are headers behind a body; an answered request is not answered twice."""
    parts = [b"0\r\nX-A: ", *[b"a" * HEAD_BYTES] * 8]
    async with asyncio.timeout(60):
        answer = await answers(service, CHUNKED, *parts, ends=False)
    assert answer.count(b"HTTP/1.1") <= 2
    assert b"HTTP/1.1 200" not in answer


async def test_a_body_may_follow_in_the_same_part(service: Served) -> None:
    """It does not count as a head, nor does the head behind it."""
    body = b"x" * 3 * HEAD_BYTES
    request = b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    writer.write(request + body + GET + b"\r\n")
    assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 405 ")
    assert b"HTTP/1.1 200 " in await reader.readuntil(b'alive"}')
    writer.close()


async def test_head_is_answered_like_get_without_the_body(service: Served) -> None:
    """Monitors ask so; the next answer on the connection follows at once."""
    head = b"HEAD /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = await answers(service, head + GET + b"\r\n")
    asked, empty, answered = answer.partition(b"\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert asked.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"content-length: 18\r\n" in asked
    assert empty
    assert answered.endswith(b'\r\n\r\n{"status":"alive"}')


@pytest.mark.parametrize("together", [True, False])
async def test_an_offer_to_switch_the_protocol_is_ignored(service: Served, *, together: bool) -> None:
    """The body stays the request's, and is not read as another request; Java's client makes such offers."""
    body = GET + b"\r\n"
    head = (
        b"POST /v1/collections/docs/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body)
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    for part in [head + body] if together else [head, body]:
        writer.write(part)
        await asyncio.sleep(0.05)
    answer = await reader.readuntil(b"}")
    assert answer.startswith(b"HTTP/1.1 415 ")  # the answer to a body of plain text, which was read
    writer.write(GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + GET + b"\r\n")
    for _ in range(2):
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
    writer.close()


@pytest.mark.parametrize(
    "head", [GET + b"Connection: close, Upgrade\r\n", GET.replace(b"1.1", b"1.0") + b"Connection: Upgrade\r\n"]
)
async def test_an_offer_on_a_connection_that_ends_is_answered(service: Served, head: bytes) -> None:
    """The parser reads nothing more after such a request."""
    async with asyncio.timeout(60):
        answer = await answers(service, head + b"Upgrade: h2c\r\n\r\n", ends=False)
    assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 2\r\nContent-Length: 5",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding : chunked",
        b"Transfer-Encoding: chunked, identity",
        b"Content-Length: +2",
    ],
)
async def test_a_body_of_doubtful_length_is_refused(service: Served, lengths: bytes) -> None:
    """A proxy may see another end of it, so that nothing after the head is read as a request."""
    head = b"POST /v1/collections/docs/search HTTP/1.1\r\nHost: localhost\r\n" + lengths + b"\r\n\r\n"
    answer = await answers(service, head + b"0\r\n\r\n" + GET + b"\r\n", ends=False)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("pause", [0.0, 0.2])
@pytest.mark.parametrize("chunk", [b"f" * 20 + b"\r\n", b"2\nxx\n0\n\n", b"2\r\nxxx0\r\n\r\n"])
async def test_a_body_that_breaks_off_in_disorder_is_refused(service: Served, chunk: bytes, pause: float) -> None:
    """Its route may have begun to wait for the rest, and has not answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    head = b"POST /v1/collections/docs/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
    await asyncio.sleep(pause)
    writer.write(chunk + GET + b"\r\n")
    async with asyncio.timeout(30):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("length", [5_000_000, 20_000_000])
async def test_a_client_that_closes_its_connection_gets_the_refusal_of_its_body(service: Served, length: int) -> None:
    """Its connection is closed when the body was read: closed before, it would be reset, with the response unread."""
    url = f"{service.url}/v1/collections/docs/items"
    asked = Request(url, b"x" * length, {"Content-Type": "text/plain"}, method="POST")  # noqa: S310 - this service
    with pytest.raises(HTTPError) as refused:
        await asyncio.to_thread(urlopen, asked)
    assert refused.value.code == (415 if length < 16 * 2**20 else 413)
    refused.value.close()


async def test_the_service_is_no_tunnel(service: Served) -> None:
    """Whatever the form of the target."""
    for target in (b"localhost:80", b"/livez"):
        head = b"CONNECT " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answer = await answers(service, head + GET + b"\r\n", ends=False)
        assert answer.startswith(b"HTTP/1.1 400 ")
        check_no_id(answer)


async def test_a_page_of_an_allowed_origin_reads_every_header(service: Served) -> None:
    """A page of another origin reads nothing."""
    head = b"GET /v1/collections HTTP/1.1\r\nHost: localhost\r\nOrigin: https://%s.example\r\n\r\n"
    allowed, other = [await answers(service, head % name) for name in (b"app", b"other")]
    assert b"access-control-allow-origin: https://app.example\r\n" in allowed
    assert b"access-control-expose-headers: *\r\n" in allowed
    assert b"access-control-allow-origin" not in other


async def test_bytes_that_are_not_http_are_refused(service: Served) -> None:
    """With a problem document, and the connection is closed."""
    answer = await answers(service, b"\x16\x03\x01 hello\r\n\r\n", ends=False)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in answer
    check_no_id(answer)


async def test_a_body_that_never_comes_is_given_up_in_the_time_of_its_request(service: Served) -> None:
    """Clients that are slow within their time are the proxy's."""
    request = (
        b"POST /v1/collections/docs/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\nX-Request-Timeout: 0.05\r\n\r\n{"
    )
    async with asyncio.timeout(60):
        answer = await answers(service, request)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"/problems/body-timeout" in answer
