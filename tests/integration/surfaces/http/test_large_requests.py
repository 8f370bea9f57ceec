"""Large requests over HTTP: early refusals, and answers that equal those of small requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from fastapi import FastAPI
from httpx2 import AsyncClient

from retrieval import Collection, Platform
from retrieval.adapters.aside import LONG_BODY
from retrieval.domain.search.query import MAX_QUERY_BYTES
from retrieval.surfaces.http.json_bodies import LARGE_AT_ONCE, MOST_MEMBERS, MOST_VALUES

pytestmark = pytest.mark.asyncio(loop_scope="module")

COLLECTION = "/v1/collections/docs"
SEARCH = f"{COLLECTION}/search"
ITEMS = f"{COLLECTION}/items"
MEBIBYTE = 2**20
SPACE = " " * LONG_BODY
JSON = {"Content-Type": "application/json"}


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def docs(platform: Platform) -> Collection:
    """The collection that is searched."""
    collection = await platform.collection("docs")
    await collection.add({"_id": f"i{n}", "title": f"Disk {n}", "level": n} for n in range(6))
    await platform.collection("tickets")
    return collection


def _large(body: Any) -> bytes:
    """The body as JSON, so large that it is read aside."""
    return f"{SPACE}{json.dumps(body)}".encode()


@pytest.mark.parametrize("path", [SEARCH, f"{SEARCH}/batch", f"{COLLECTION}/preview", "/v2/retrieval/search"])
@pytest.mark.parametrize("is_told", [True, False])
async def test_a_search_of_more_than_a_mebibyte_is_refused_before_it_is_read(
    client: AsyncClient,
    path: str,
    is_told: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """By its content length if known, else once that much has arrived: this body never ends."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"[" * (MEBIBYTE // 20)

    content = b"[" * (MEBIBYTE + 1) if is_told else endless()
    answer = await client.post(path, content=content, headers=JSON)
    assert (answer.status_code, answer.json()["type"]) == (413, "/problems/body-too-large")
    assert "more than 1,048,576 bytes" in answer.json()["detail"]


async def test_items_and_feedback_may_bring_more(client: AsyncClient, docs: Collection) -> None:
    """Their limit is higher."""
    items = [{"item_id": f"large-{n}", "body": "x" * (MEBIBYTE // 2)} for n in range(3)]
    answer = await client.post(ITEMS, json={"items": items})
    assert (answer.status_code, answer.json()["added"]) == (200, 3), answer.text
    answer = await client.put(f"{ITEMS}/large-3", json={"body": "y" * (MEBIBYTE + 1)})
    assert answer.status_code == 201, answer.text
    await docs.delete([f"large-{n}" for n in range(4)])
    events = [
        {"item_id": f"i{n % 6}", "collection": "docs", "helpful": True, "actor": f"a{n}", "note": "n" * 200}
        for n in range(5000)
    ]
    answer = await client.post("/v1/feedback/batch", json={"events": events})
    assert (answer.status_code, answer.json()["recorded"]) == (200, 5000), answer.text


@pytest.mark.parametrize(
    "body",
    [
        {"query": "disk", "where": {"level": {"gte": 2}}, "limit": 3, "context": {"session": "s"}},
        {"query": "disk", "as_of": "2026-05-31T12:00:00Z", "entities": {"q": ["1"]}, "tags": ["a"], "explain": False},
    ],
)
async def test_a_large_body_is_answered_as_a_small_one(client: AsyncClient, body: dict[str, Any]) -> None:
    """Blanks are as good as anything to make it large."""
    small, large = await client.post(SEARCH, json=body), await client.post(SEARCH, content=_large(body), headers=JSON)
    assert small.status_code == large.status_code == 200, large.text
    assert small.json()["hits"] == large.json()["hits"]


@pytest.mark.parametrize(
    "body",
    [
        {"query": "disk", "limt": 3},
        {"query": 5, "tags": ["a", 1]},
        {"query": "disk", "context": {"complexity": 2.0}},
        {"query": "disk", "where": {"level": {"near": 1}}},
        {"query": "disk", "where": {"levl": 1}},
        {"query": "disk", "profile": {"legs": {"dens": 1}}},
        {"query": "disk", "legs": ["dense"] * 9},
        [1],
        5,
    ],
)
async def test_a_large_body_is_refused_as_a_small_one(client: AsyncClient, body: Any) -> None:
    """The same problem, with the same places."""
    small, large = await client.post(SEARCH, json=body), await client.post(SEARCH, content=_large(body), headers=JSON)
    assert small.status_code == large.status_code == 422
    assert {**small.json(), "request_id": ""} == {**large.json(), "request_id": ""}


async def test_a_search_of_too_many_values_is_refused_before_it_is_read(client: AsyncClient) -> None:
    """Reading them would keep every other request waiting; 100 vectors of 1,024 dimensions are not too many."""
    many = b'{"query": "disk", "tags": [' + b"1," * MOST_VALUES + b"1]}"
    answer = await client.post(SEARCH, content=many, headers=JSON)
    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/malformed-body")
    assert "150,003 commas and brackets; a search may have 150,000" in answer.json()["detail"]
    members = b"{" + b",".join(b'"%d":1' % n for n in range(MOST_MEMBERS + 1)) + b"}"
    answer = await client.post(SEARCH, content=members, headers=JSON)
    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/malformed-body")
    assert "20,001 colons; a search may have 20,000" in answer.json()["detail"]
    vectors = {"queries": ["disk"] * 100, "vectors": [[0.5] * 1024] * 100}
    answer = await client.post(f"{SEARCH}/batch", json=vectors)
    assert "commas" not in answer.text


@pytest.mark.parametrize("ending", [b"{", b"[" * 100_000, b"\xff", b"1" * 5000, b""])
async def test_a_large_body_that_is_not_json_is_malformed(client: AsyncClient, ending: bytes) -> None:
    """Whyever not."""
    answer = await client.post(SEARCH, content=SPACE.encode() + ending, headers=JSON)
    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/malformed-body")


@pytest.mark.parametrize(
    "body",
    [
        {"query": "disk", **{f"x{n}": 1 for n in range(10_000)}},
        {"query": "disk", "entities": {f"x{n}": 1 for n in range(10_000)}},
    ],
)
async def test_a_body_with_many_errors_gets_a_short_answer(client: AsyncClient, body: dict[str, Any]) -> None:
    """A megabyte of mistakes is not answered by twenty."""
    answer = await client.post(SEARCH, json=body)
    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/malformed-body")
    assert "has 10,000 errors" in answer.json()["detail"]
    assert len(answer.content) < 2000


async def test_the_first_wrong_value_of_a_list_is_reported(client: AsyncClient) -> None:
    """The others would be reported too, one by one."""
    answer = await client.post(SEARCH, json={"query": "disk", "tags": ["a", *[1] * 20_000]})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/tags/1"]


@pytest.mark.parametrize(
    ("path", "body", "pointer", "bound"),
    [
        (SEARCH, {"query": "x" * (MAX_QUERY_BYTES + 1)}, "/query", "32,768 bytes (RETRIEVAL_MAX_QUERY_BYTES)"),
        (
            SEARCH,
            {"query": "a", "rewrites": ["b", "x" * 40_000]},
            "/rewrites/1",
            "rewrite 2 has more than 32,768 bytes",
        ),
        (f"{SEARCH}/batch", {"queries": ["a", "x" * 40_000]}, "/queries/1", "query 2: the query has more than 32,768"),
        (f"{SEARCH}/batch", {"queries": ["a"] * 11, "limit": 1000}, "/limit", "at most 10,000 hits in one call"),
        (SEARCH, {"query": "a", "where": {"level": [*range(10_001)]}}, "/where", "10,000 values"),
        (SEARCH, {"query": "a", "prefer": {"level": [*range(10_001)]}}, "/prefer", "10,000 values"),
        (SEARCH, {"query": "a", "where": {"or": [{"level": n} for n in range(101)]}}, "/where", "100 conditions"),
        (f"{COLLECTION}/preview", {"query": "x" * 40_000, "profiles": {"a": 1}}, "/query", "32,768 bytes"),
        ("/v2/retrieval/search", {"title": "x" * 40_000}, "/title", "32,768 bytes"),
    ],
)
async def test_an_exceeded_bound_is_named_with_its_place(
    client: AsyncClient, path: str, body: dict[str, Any], pointer: str, bound: str
) -> None:
    """A problem of the request: 422."""
    answer = await client.post(path, json=body)
    assert answer.status_code == 422, answer.text
    assert bound in answer.json()["detail"]
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


async def test_few_large_searches_are_answered_at_once(app: FastAPI, client: AsyncClient) -> None:
    """Small searches overtake waiting ones, and writes wait for none."""
    places: asyncio.Semaphore = app.state.large
    for _ in range(LARGE_AT_ONCE):
        await places.acquire()
    try:
        waiting = [
            asyncio.create_task(client.post(SEARCH, content=_large({"query": "disk"}), headers=JSON)),
            asyncio.create_task(client.post(SEARCH, json={"query": "disk", "limit": 100})),
            asyncio.create_task(client.post(f"{SEARCH}/batch", json={"queries": ["disk"] * 10})),
        ]
        assert (await client.post(SEARCH, json={"query": "disk"})).status_code == 200
        items = {"items": [{"item_id": "w"}]}
        assert (await client.post(ITEMS, content=_large(items), headers=JSON)).status_code == 200
        assert not any(task.done() for task in waiting)
    finally:
        for _ in range(LARGE_AT_ONCE):
            places.release()
    assert [(await task).status_code for task in waiting] == [200] * 3


@pytest.mark.parametrize("length", [9, 2 * LONG_BODY])
async def test_a_client_that_hangs_up_in_its_body_is_not_an_error(
    app: FastAPI, caplog: pytest.LogCaptureFixture, length: int
) -> None:
    """It is not answered, and no error of the service is logged."""
    parts: list[dict[str, object]] = [{"type": "http.request", "body": b"{", "more_body": True}]
    parts.append({"type": "http.disconnect"})
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"%d" % length)]
    scope = {"type": "http", "method": "POST", "path": SEARCH, "headers": headers, "query_string": b"", "state": {}}

    async def receive() -> dict[str, object]:
        return parts.pop(0) if parts else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    async with asyncio.timeout(60):
        await app(scope, receive, send)
    assert "unexpected" not in caplog.text
