"""Authentication, rate limits and idempotent writes, on an application with two routes for the test."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from fastapi import APIRouter, HTTPException, Request
from fastapi import Response as Answer
from httpx2 import ASGITransport, AsyncClient, Response
from pydantic import SecretStr

from retrieval import Context, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.installation.idempotency import begin_write
from retrieval.domain.api_key import NewApiKey
from retrieval.domain.errors import UnknownKeyError
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.jobs.registry import JOBS
from retrieval.jobs.run import run_job
from retrieval.services.add import AddedEach
from retrieval.services.items import add_each
from retrieval.surfaces.http import admission, authentication
from retrieval.surfaces.http.admission import LONGEST_ANSWER
from retrieval.surfaces.http.app import create_app
from retrieval.surfaces.http.caller import ReadPlatform, WritePlatform, caller_of
from retrieval.surfaces.http.connection import GRACE_SECONDS
from tests.support.database import SCHEMA
from tests.support.jobs import target_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Things:
    """The calls of the routes, and their next results."""

    done: list[bytes] = field(default_factory=list)
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def router(self) -> APIRouter:
        """One route that reads and one that writes."""
        router = APIRouter(include_in_schema=False)
        router.get("/things")(self.who)
        for path in ("/things", "/things/search"):
            router.post(path)(self.write)
        router.delete("/things")(self.remove)
        return router

    async def who(self, request: Request, platform: ReadPlatform) -> dict[str, object]:
        """The caller as the routes see it."""
        caller = caller_of(request)
        return {"tenant": caller.tenant, "key_id": caller.key_id, "same": platform.settings.tenant == caller.tenant}

    async def write(self, request: Request, platform: WritePlatform) -> Answer:
        """Do it once more."""
        body = await request.body()
        self.done.append(body)
        match body:
            case b"refused":
                raise HTTPException(409, "not now")
            case b"broken":
                raise KeyError
            case b"slow":
                self.entered.set()
                await self.go_on.wait()
            case b"stored":
                self.entered.set()
                await self.go_on.wait()
                await platform.keys()
            case b"long":
                return Answer(b"x" * (LONGEST_ANSWER + 1))
        return Answer(b"%d\xff" % len(self.done), 201, {"ETag": '"1"', "Location": "/things/1", "X-Other": "1"})

    async def remove(self, _platform: WritePlatform) -> Answer:
        """Do it once more, and say nothing."""
        self.done.append(b"")
        return Answer(status_code=204)


@dataclass
class World:
    """A running service with its client, and the platforms of the two tenants that it serves."""

    client: AsyncClient
    things: Things
    mine: Platform
    other: Platform

    async def key(self, *scopes: str, platform: Platform | None = None, per_minute: int | None = None) -> NewApiKey:
        """A new key."""
        return await (platform or self.mine).create_key("test", scopes=scopes, requests_per_minute=per_minute)

    async def post(self, key: NewApiKey, body: bytes, idempotency_key: str, path: str = "/things") -> Response:
        """A write with an idempotency key."""
        headers = {**bearing(key), "Idempotency-Key": idempotency_key}
        return await self.client.post(path, content=body, headers=headers)


def bearing(key: NewApiKey) -> dict[str, str]:
    """The header that a client sends."""
    return {"Authorization": f"Bearer {key.text}"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(database_url: str) -> AsyncIterator[World]:
    """One service for all tests, each of which uses its own keys."""
    settings = Settings(
        tenant=f"tenant-{uuid.uuid4()}", database_schema=SCHEMA, embedder="none", database_url=SecretStr(database_url)
    )
    app = create_app(settings, embedder=HashingEmbedder())
    things = Things()
    app.include_router(things.router)
    transport = ASGITransport(app=app)
    async with (
        connect(settings=settings, embedder=HashingEmbedder()) as mine,
        mine.of_tenant(f"{settings.tenant}-other") as other,
        app.router.lifespan_context(app),
        AsyncClient(transport=transport, base_url="http://retrieval.test") as client,
    ):
        yield World(client, things, mine, other)


async def test_without_a_key_there_is_nothing_but_the_state_and_the_description(world: World) -> None:
    """Every other path is 401, also one that does not exist, with a body that is not read."""
    for path in ("/livez", "/openapi.json"):
        assert (await world.client.get(path)).status_code == 200
    for method, path in (("GET", "/things"), ("GET", "/nowhere"), ("POST", "/things"), ("OPTIONS", "/things")):
        refused = await world.client.request(method, path, content=b"{")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="retrieval"')
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["type"] == "/problems/authentication"


async def test_the_tenant_is_the_keys_whichever_header_bears_it(world: World) -> None:
    """Another tenant's key is another tenant's view."""
    for platform in (world.mine, world.other):
        key = await world.key("read", platform=platform)
        for headers in (bearing(key), {"X-API-Key": key.text}):
            answer = await world.client.get("/things", headers=headers)
            expected = {"tenant": platform.settings.tenant, "key_id": key.key.key_id, "same": True}
            assert (answer.status_code, answer.json()) == (200, expected)


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key"])
async def test_of_two_keys_none_counts(world: World, name: str) -> None:
    """A proxy may have read the other header; two headers are refused even if both are the same."""
    key = await world.key("read")
    header = (name, f"Bearer {key.text}" if name == "Authorization" else key.text)
    assert (await world.client.get("/things", headers=[header])).status_code == 200
    assert (await world.client.get("/things", headers=[header, header])).status_code == 401


async def test_without_keys_every_caller_is_the_services_own_tenant(client: AsyncClient) -> None:
    """This is for ``--insecure-local``; requests are not counted."""
    answer = await client.get("/nowhere")
    assert (answer.status_code, "ratelimit-limit" in answer.headers) == (404, False)


async def test_a_body_that_is_compressed_is_refused(world: World) -> None:
    """It is refused before it is read, with the accepted encodings."""
    key = await world.key("write")
    answers = [
        await world.client.post("/things", content=b"one", headers={**bearing(key), "Content-Encoding": encoding})
        for encoding in ("gzip", "identity")
    ]
    assert [answer.status_code for answer in answers] == [415, 201]
    assert (answers[0].json()["type"], answers[0].headers["accept-encoding"]) == ("/problems/encoded-body", "identity")


async def test_a_missing_scope_is_named(world: World) -> None:
    """403 says which one, and ``admin`` is all of them."""
    key = await world.key("read", "feedback")
    refused = await world.client.post("/things", headers=bearing(key))
    assert (refused.status_code, refused.json()["type"]) == (403, "/problems/forbidden")
    assert "retrieval keys create NAME --scope write" in refused.json()["detail"]
    assert 'error="insufficient_scope", scope="write"' in refused.headers["www-authenticate"]
    assert (await world.client.post("/things", headers=bearing(await world.key("admin")))).status_code == 201


async def test_a_revoked_key_is_refused_like_one_that_never_was(world: World) -> None:
    """The documents differ by their request ids alone."""
    revoked = await world.key("read")
    await world.mine.revoke_key(revoked.key.key_id)
    again = await world.mine.revoke_key(revoked.text)
    assert again.revoked_at is not None
    documents = []
    for text in (revoked.text, revoked.text[:-1] + "7", "rtv_" + "a" * 12 + "_" + "b" * 52):
        refused = await world.client.get("/things", headers={"X-API-Key": text})
        assert refused.status_code == 401
        documents.append(refused.json() | {"request_id": ""})
    assert documents[0] == documents[1] == documents[2]


async def test_a_revoked_key_stores_no_more_of_a_stream(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items stored before have their line, and the summary gives the reason for the end."""
    monkeypatch.setattr(authentication, "REMEMBERED_SECONDS", 0)
    key, store, stored = await world.key("write"), add_each, asyncio.Event()
    await world.mine.collection("streamed")

    async def noted(handle: CollectionHandle, items: Any, *, more: bool = False) -> AddedEach:
        added = await store(handle, items, more=more)
        stored.set()
        return added

    async def body() -> AsyncIterator[bytes]:
        yield b'{"_id":"before","text":"word"}\n'
        await stored.wait()
        await world.mine.revoke_key(key.text)
        yield b'{"_id":"after","text":"word"}\n'

    monkeypatch.setattr("retrieval.surfaces.http.bulk.add_each", noted)
    headers = {"X-API-Key": key.text, "Content-Type": "application/x-ndjson"}
    answer = await world.client.post("/v1/collections/streamed/items/bulk", content=body(), headers=headers)
    first, last = map(json.loads, answer.content.splitlines())
    assert (first["item_id"], first["result"]) == ("before", "added")
    assert (last["summary"]["added"], last["error"]["type"]) == (1, "/problems/authentication")


@pytest.mark.parametrize("named", ["", "rtv_secret", "a\x00b", "a" * 12])
async def test_an_unknown_key_cannot_be_revoked(world: World, named: str) -> None:
    """Neither can another tenant's key; a mistyped secret is not repeated."""
    with pytest.raises(UnknownKeyError, match="list the keys") as refused:
        await world.mine.revoke_key(named)
    assert "rtv_" not in str(refused.value)
    theirs = await world.key("read", platform=world.other)
    with pytest.raises(UnknownKeyError, match=f"no API key {theirs.key.key_id};"):
        await world.mine.revoke_key(theirs.text)


async def test_a_key_has_its_own_number_of_requests_a_minute(world: World) -> None:
    """Each answer has the remaining number; beyond the limit it is 429 with the time to wait, for any request."""
    key = await world.key("read", per_minute=2)
    first = await world.client.get("/things", headers=bearing(key))
    assert (first.headers["ratelimit-limit"], first.headers["ratelimit-remaining"]) == ("2", "1")
    assert (await world.client.get("/nowhere", headers=bearing(key))).status_code == 404
    refused = await world.client.get("/things", headers=bearing(key))
    assert (refused.status_code, refused.json()["type"]) == (429, "/problems/rate-limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    assert refused.headers["ratelimit-remaining"] == "0"
    usual = await world.client.get("/things", headers=bearing(await world.key("read")))
    assert usual.headers["ratelimit-limit"] == "6000"


async def test_a_key_for_pages_names_no_actor_and_another_one_has_its_cap(world: World) -> None:
    """In single events, batches and outcomes; the answer reports discounted events."""
    docs = await world.mine.collection("judged")
    await docs.add([{"_id": "1", "text": "a cat"}])
    hits = await docs.search("cat", context=Context(actor="ann"))
    await world.mine.recorded()
    page, program = await world.key("feedback"), await world.mine.create_key("app", scopes=["feedback", "read"])
    assert (page.key.feedback_cap, program.key.feedback_cap) == (100, 1000)
    hit = {"retrieval_id": str(hits.retrieval_id), "item_id": "1", "helpful": True}
    direct = {"collection": "judged", "item_id": "1", "helpful": True}
    requests: list[tuple[str, dict[str, Any]]] = [
        ("/v1/feedback", {**hit, "actor": "bob"}),
        ("/v1/feedback", {**direct, "context": {"actor": "bob"}}),
        ("/v1/feedback/batch", {"events": [hit, {**direct, "actor": "bob"}]}),
        ("/v1/outcome", {"retrieval_id": hit["retrieval_id"], "used": ["1"], "reward": 1, "actor": "bob"}),
    ]
    for path, body in requests:
        refused = await world.client.post(path, json=body, headers=bearing(page))
        assert (refused.status_code, refused.json()["type"]) == (422, "/problems/invalid-request")
        assert "may not name an actor" in refused.json()["detail"]
        assert (await world.client.post(path, json=body, headers=bearing(program))).status_code == 200
    assert (await world.client.post("/v1/feedback", json=hit, headers=bearing(page))).json()["recorded"] == 1
    assert await world.mine.quarantine("ann") == 1
    events = [{**direct, "session": f"s{number}"} for number in range(101)]
    payload = (await world.client.post("/v1/feedback/batch", json={"events": events}, headers=bearing(page))).json()
    assert payload["discounted"] == {"over the cap of the key": 2}


async def test_the_last_use_of_a_key_is_shown(world: World) -> None:
    """It is noted behind the request."""
    key = await world.key("read")
    await world.client.get("/things", headers=bearing(key))
    used = None
    async with asyncio.timeout(10):
        while used is None:  # the look-up is a round trip to the database
            used = {key.key_id: key.last_used_at for key in await world.mine.keys()}[key.key.key_id]
    assert used >= (key.key.created_at or used)
    assert key.key.key_id not in {key.key_id for key in await world.other.keys()}


async def test_a_write_that_is_repeated_is_done_once_and_answered_alike(world: World) -> None:
    """The same status, body and headers that matter, and the sign that it is an answer of before."""
    key, once = await world.key("write"), str(uuid.uuid4())
    writes_before = len(world.things.done)
    first = await world.post(key, b"one", once)
    again = await world.post(key, b"one", once)
    assert len(world.things.done) == writes_before + 1
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert (
        (again.status_code, again.content)
        == (first.status_code, first.content)
        == (201, b"%d\xff" % (writes_before + 1))
    )
    assert [again.headers[name] for name in ("etag", "location")] == ['"1"', "/things/1"]
    assert again.headers["x-request-id"] != first.headers["x-request-id"]


async def test_an_empty_answer_is_repeated_too(world: World) -> None:
    """Deleting again gets the first answer."""
    headers = {**bearing(await world.key("write")), "Idempotency-Key": "delete"}
    writes_before = len(world.things.done)
    answers = [await world.client.delete("/things", headers=headers) for _ in range(2)]
    assert len(world.things.done) == writes_before + 1
    assert [(answer.status_code, answer.content, "content-length" in answer.headers) for answer in answers] == [
        (204, b"", False)
    ] * 2


async def test_another_request_under_the_same_key_is_refused(world: World) -> None:
    """Another body, format, address, method or condition: 422; another API key has idempotency keys of its own."""
    key, once = await world.key("write"), "same"
    await world.post(key, b"one", once)
    refused = [await world.post(key, b"two", once), await world.post(key, b"one", once, "/things?a=1")]
    headers = {**bearing(key), "Idempotency-Key": once}
    refused.append(await world.client.delete("/things", headers=headers))
    refused += [
        await world.client.post("/things", content=b"one", headers={**headers, **more})
        for more in ({"If-Match": '"1"'}, {"Content-Type": "text/html"})
    ]
    for answer in refused:
        assert (answer.status_code, answer.json()["type"]) == (422, "/problems/idempotency-mismatch")
    other = await world.post(await world.key("write"), b"two", once)
    assert other.status_code == 201


async def test_while_a_write_is_under_way_it_is_not_begun_again(world: World) -> None:
    """409 with the advice to ask again; then the answer of the first."""
    key, writes_before = await world.key("write"), len(world.things.done)
    first = asyncio.create_task(world.post(key, b"slow", "slow"))
    await world.things.entered.wait()
    refused = await world.post(key, b"slow", "slow")
    assert (refused.status_code, refused.headers["retry-after"]) == (409, "1")
    world.things.go_on.set()
    assert (await first).status_code == 201
    assert (await world.post(key, b"slow", "slow")).headers["idempotency-replayed"] == "true"
    assert len(world.things.done) == writes_before + 1


async def test_of_writes_that_come_at_once_one_is_done(world: World) -> None:
    """The others get a conflict, or the answer."""
    key, writes_before = await world.key("write"), len(world.things.done)
    answers = await asyncio.gather(*(world.post(key, b"one", "at once") for _ in range(8)))
    assert len(world.things.done) == writes_before + 1
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert sum("idempotency-replayed" not in answer.headers for answer in answers if answer.status_code == 201) == 1


@pytest.mark.parametrize(("body", "status"), [(b"refused", 409), (b"broken", 500)])
async def test_a_write_that_failed_may_be_sent_again(world: World, body: bytes, status: int) -> None:
    """Its client gets the error, and the key is free, also for a corrected request."""
    key, writes_before = await world.key("write"), len(world.things.done)
    for content, expected in ((body, status), (body, status), (b"good", 201)):
        assert (await world.post(key, content, "again")).status_code == expected
    assert len(world.things.done) == writes_before + 3


async def test_a_write_goes_on_when_its_client_hangs_up(world: World) -> None:
    """The client cannot know the state: a repetition gets the result, and the write is done once."""
    key, writes_before = await world.key("write"), len(world.things.done)
    world.things.entered.clear()
    world.things.go_on.clear()
    cut_off = asyncio.create_task(world.post(key, b"slow", "cut off"))
    await world.things.entered.wait()
    cut_off.cancel()
    assert (await world.post(key, b"slow", "cut off")).status_code == 409
    world.things.go_on.set()
    await asyncio.wait([cut_off])
    answer = await world.post(key, b"slow", "cut off")
    assert (answer.status_code, "idempotency-replayed" in answer.headers) == (201, True)
    assert len(world.things.done) == writes_before + 1


async def test_a_write_that_is_late_goes_on_and_its_client_hears_what_became_of_it(world: World) -> None:
    """Its statements have more time than those of other requests; a repetition does not repeat the write."""
    key, writes_before = await world.key("write"), len(world.things.done)
    world.things.entered.clear()
    world.things.go_on.clear()
    headers = {**bearing(key), "Idempotency-Key": "late", "X-Request-Timeout": "0.1"}
    late = asyncio.create_task(world.client.post("/things", content=b"stored", headers=headers))
    await world.things.entered.wait()
    await asyncio.sleep(0.1 + 2 * GRACE_SECONDS)
    world.things.go_on.set()
    assert (await late).status_code == 201
    answer = await world.post(key, b"stored", "late")
    assert (answer.status_code, "idempotency-replayed" in answer.headers) == (201, True)
    assert len(world.things.done) == writes_before + 1


async def test_a_write_that_is_late_before_it_begins_is_done(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its key is held by then: if the request ended there, the key would stay taken for nothing."""

    async def slow(*arguments: Any, **options: Any) -> Any:
        earlier = await begin_write(*arguments, **options)
        await asyncio.sleep(0.1 + 2 * GRACE_SECONDS)
        return earlier

    monkeypatch.setattr("retrieval.surfaces.http.admission.begin_write", slow)
    key = await world.key("write")
    headers = {**bearing(key), "Idempotency-Key": "slow", "X-Request-Timeout": "0.1"}
    answers = [await world.client.post("/things", content=b"one", headers=headers) for _ in range(2)]
    assert [(answer.status_code, "idempotency-replayed" in answer.headers) for answer in answers] == [
        (201, False),
        (201, True),
    ]


async def test_a_write_beyond_its_deadline_has_an_unknown_state(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state is unknown: the key stays reserved for a while."""
    monkeypatch.setattr(admission, "FINISH_SECONDS", 0.5)
    key = await world.key("write")
    world.things.go_on.clear()
    headers = {**bearing(key), "Idempotency-Key": "too late", "X-Request-Timeout": "0.1"}
    late = await world.client.post("/things", content=b"slow", headers=headers)
    assert (late.status_code, late.json()["type"]) == (504, "/problems/deadline")
    assert (await world.post(key, b"slow", "too late")).status_code == 409


async def test_a_write_whose_body_never_comes_may_be_sent_again(world: World) -> None:
    """It was not begun, and the key does not stay taken."""
    key, writes_before = await world.key("write"), len(world.things.done)

    awaited = asyncio.Event()

    async def never() -> AsyncIterator[bytes]:
        yield b"on"
        awaited.set()
        await asyncio.Event().wait()

    headers = {**bearing(key), "Idempotency-Key": "never"}
    cut_off = asyncio.create_task(world.client.post("/things", content=never(), headers=headers))
    await awaited.wait()
    cut_off.cancel()
    await asyncio.wait([cut_off])
    async with asyncio.timeout(10):
        while (answer := await world.post(key, b"one", "never")).status_code == 409:
            pass  # the look-up is a round trip to the database, and the key is freed after it
    assert (answer.status_code, "idempotency-replayed" in answer.headers) == (201, False)
    assert len(world.things.done) == writes_before + 1


async def test_an_answer_too_long_to_be_kept_is_not_given_again_and_the_write_not_repeated(world: World) -> None:
    """The answer says that the write was done."""
    key, writes_before = await world.key("write"), len(world.things.done)
    assert len((await world.post(key, b"long", "long")).content) == LONGEST_ANSWER + 1
    refused = await world.post(key, b"long", "long")
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/idempotency-conflict")
    assert "this was done, with status 200" in refused.json()["detail"]
    assert len(world.things.done) == writes_before + 1


async def test_searches_and_reads_run_despite_an_idempotency_key(world: World) -> None:
    """A search with an idempotency key runs each time; so does every read."""
    key, writes_before = await world.key("write"), len(world.things.done)
    for _ in range(2):
        assert (await world.post(key, b"", "ask", "/things/search")).status_code == 201
    assert len(world.things.done) == writes_before + 2


@pytest.mark.parametrize("idempotency_key", ["", "x" * 256, "\t", "é"])
async def test_an_invalid_idempotency_key_is_refused(world: World, idempotency_key: str) -> None:
    """Before anything is done."""
    headers = [(b"authorization", f"Bearer {(await world.key('write')).text}".encode())]
    refused = await world.client.post("/things", headers=[*headers, (b"idempotency-key", idempotency_key.encode())])
    assert refused.status_code == 422
    assert "1 to 255 printable ASCII characters" in refused.json()["detail"]


async def _change(platform: Platform, change: str, idempotency_key: str) -> None:
    statement = f"UPDATE idempotency_keys SET {change} WHERE tenant_id = %(tenant)s AND idempotency_key = %(key)s"  # noqa: S608 - the test's own
    parameters = {"tenant": platform.tenant_id, "key": idempotency_key}
    await platform.database.write(platform.tenant_id, Compiled(statement, parameters))


@pytest.mark.parametrize("path", ["/v1/feedback", "/v1/feedback/batch"])
async def test_feedback_of_a_write_that_was_killed_counts_once(world: World, path: str) -> None:
    """Its repetition does the whole write again, with a verdict that has neither actor nor key of its own."""
    await (await world.mine.collection("docs")).add([{"_id": "a", "text": "timeout"}])
    verdict = {"collection": "docs", "item_id": "a", "helpful": True}
    headers, body = bearing(await world.key("feedback", "read")), {"events": [verdict, verdict]}

    async def send(idempotency_key: str) -> dict[str, Any]:
        sent = verdict if path == "/v1/feedback" else body
        answer = await world.client.post(path, json=sent, headers={**headers, "Idempotency-Key": idempotency_key})
        reported: dict[str, Any] = answer.json()
        return reported

    once = str(uuid.uuid4())
    first = await send(once)
    await _change(world.mine, "status = NULL, held_until = now()", once)
    again = await send(once)
    assert (again["recorded"], again["repeated"]) == (0, first["recorded"])
    assert (await send(str(uuid.uuid4())))["recorded"] == first["recorded"]


@pytest.mark.parametrize(
    "change",
    [
        "expires_at = now()",
        "status = NULL, held_until = now()",
        "status = NULL, held_until = now() + interval '1 hour'",  # the server's clock was set back
    ],
)
async def test_a_key_whose_time_is_over_is_free(world: World, change: str) -> None:
    """After a day, or after the longest possible duration of a write whose process died."""
    key, writes_before, once = await world.key("write"), len(world.things.done), str(uuid.uuid4())
    await world.post(key, b"one", once)
    await _change(world.mine, change, once)
    again = await world.post(key, b"two", once)
    assert (again.status_code, "idempotency-replayed" in again.headers) == (201, False)
    assert len(world.things.done) == writes_before + 2


async def test_expired_answers_are_removed_by_the_job_that_prunes(world: World) -> None:
    """Answers of every tenant, also of one without collections; unexpired answers stay."""
    collection = await world.mine.collection("docs")
    mine, theirs = await world.key("write"), await world.key("write", platform=world.other)
    for once in ("old", "new"):
        await world.post(mine, b"one", once)
        await world.post(theirs, b"one", once)
    for platform in (world.mine, world.other):
        await _change(platform, "expires_at = now() - interval '1 second'", "old")
    report = await run_job(world.mine.workplace, JOBS["prune"], await target_of(world.mine, collection))
    assert report.details["idempotency_keys"] >= 2
    for platform, key in ((world.mine, mine), (world.other, theirs)):
        assert await _idempotency_keys(platform, key) == {"new"}
        assert (await world.post(key, b"one", "new")).headers["idempotency-replayed"] == "true"


async def _idempotency_keys(platform: Platform, key: NewApiKey) -> set[str]:
    statement = "SELECT idempotency_key FROM idempotency_keys WHERE key_id = %(key_id)s"
    rows = await platform.database.read(platform.tenant_id, Compiled(statement, {"key_id": key.key.key_id}))
    return {name for (name,) in rows}


async def test_no_secret_appears_in_logs_or_answers(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the request's key nor a wrong one appears in a log record or an answer, for any outcome."""
    caplog.set_level(logging.DEBUG)
    key = await world.key("read", "write", per_minute=4)
    wrong = key.text[:-1] + ("a" if key.text[-1] != "a" else "b")
    answers = [await world.client.get("/things", headers=bearing(key))]
    answers += [await world.post(key, body, "logs") for body in (b"broken", b"one", b"one")]
    answers += [await world.client.get("/things", headers=bearing(key))]
    answers += [await world.client.get("/things", headers={"X-API-Key": text}) for text in (wrong, "rtv_secret")]
    assert [answer.status_code for answer in answers] == [200, 500, 201, 201, 429, 401, 401]
    texts = caplog.text + "".join(map(_everything, answers)) + repr(caplog.records)
    for secret in (key.text, key.text.split("_")[2], wrong, "rtv_secret"):
        assert secret not in texts


def _everything(answer: Response) -> str:
    return f"{answer.content!r} {list(answer.headers.items())}"
