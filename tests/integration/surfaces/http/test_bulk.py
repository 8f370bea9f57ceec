"""Many items in one request: lines in, and a line for each out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
import pytest_asyncio
from httpx2 import ASGITransport, AsyncClient

from retrieval import Platform
from retrieval.domain.errors import DatabaseUnreachableError
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.services.add import AddedEach
from retrieval.services.items import add_each
from retrieval.surfaces.http.bulk import MAX_LINE_BYTES

pytestmark = pytest.mark.asyncio(loop_scope="module")

ITEMS = "/v1/collections/docs/items"


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def docs(client: AsyncClient) -> None:
    """The collection that these tests write into."""
    await client.put("/v1/collections/docs")


async def send(client: AsyncClient, body: bytes | AsyncIterator[bytes]) -> list[dict[str, Any]]:
    """The lines of the answer to a stream."""
    answer = await client.post(f"{ITEMS}/bulk", content=body, headers={"Content-Type": "application/x-ndjson"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/x-ndjson")
    return [json.loads(line) for line in answer.content.splitlines()]


def lines(records: Iterable[object]) -> bytes:
    """Records, a line each."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


async def test_a_csv_is_stored_by_its_columns(client: AsyncClient) -> None:
    """Rows are answered as lines are; one of them without a text is noted."""
    sheet = b"Ref,Headline,Body,Year\nB1,Tide,The harbour\\n,2019\nB2,Snow,,2018\n,none,,\n"
    query = {"map": ["id=Ref", "text=Body"]}
    answer = await client.post(f"{ITEMS}/bulk", content=sheet, params=query, headers={"Content-Type": "text/csv"})
    *answered, last = [json.loads(line) for line in answer.content.splitlines()]

    assert [(line["line"], line.get("item_id")) for line in answered] == [(2, "B1"), (3, "B2"), (4, None)]
    assert (last["summary"]["added"], last["summary"]["rejected"]) == (2, 1)
    assert last["summary"]["notes"] == ["1 of 2 items has no text; an item's 'title' and 'text' are searched"]
    assert (await client.get(f"{ITEMS}/B1")).json()["metadata"] == {"Headline": "Tide", "Year": 2019}


async def test_a_body_without_any_text_is_refused_and_replaces_none(client: AsyncClient) -> None:
    """A forgotten mapping overwrites no stored text."""
    await client.put(f"{ITEMS}/B1", json={"text": "Snow fell."})
    answer = await client.post(
        f"{ITEMS}/bulk", content=b"Ref,Body\nB1,The harbour\n", params={"map": "id=Ref"},
        headers={"Content-Type": "text/csv"},
    )  # fmt: skip

    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("1 of 1 item has no text; if 'Body' holds it")
    assert (await client.get(f"{ITEMS}/B1")).json()["text"] == "Snow fell."


@pytest.mark.parametrize(
    ("sheet", "message"),
    [
        (
            b"Ref,Body\nB1,The harbour\n",
            "the CSV: no column 'id'; there are: 'Ref', 'Body'; map the column of the ids: ?map=id=NAME",
        ),
        (
            b"id,te\xffxt\nB1,x\n",
            "the CSV: the header cannot be read: byte 6 (0xff) is not UTF-8; save the file as UTF-8",
        ),
        (b'id,"text\nB1,x\n', "the CSV: the header cannot be read: a quote that opens here is still open"),
    ],
)
async def test_a_header_of_which_no_item_can_be_made_is_refused_before_the_stream(
    client: AsyncClient, sheet: bytes, message: str
) -> None:
    """With a problem document, in the words of requests."""
    answer = await client.post(f"{ITEMS}/bulk", content=sheet, headers={"Content-Type": "text/csv"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (422, "application/problem+json")
    assert answer.json()["detail"].startswith(message)


@pytest.mark.parametrize(
    ("kind", "body"), [("text/csv", b""), ("text/csv", b"id,text\n\n"), ("application/x-ndjson", b"\n")]
)
async def test_a_body_without_items_is_reported(client: AsyncClient, kind: str, body: bytes) -> None:
    """An empty one, and one with the header alone."""
    answer = await client.post(f"{ITEMS}/bulk", content=body, headers={"Content-Type": kind})
    [last] = [json.loads(line) for line in answer.content.splitlines()]
    assert last["summary"]["notes"] == ["there was no item in the body"]


@pytest.mark.parametrize(
    ("kind", "body"), [("text/csv", b"id,text\n,one\n,two\n"), ("application/x-ndjson", b'{"text": "one"}\n[]\n')]
)
async def test_a_body_of_which_no_line_is_an_item_is_refused(client: AsyncClient, kind: str, body: bytes) -> None:
    """A body that has arrived is refused as a whole; otherwise the summary says so."""
    headers = {"Content-Type": kind}
    answer = await client.post(f"{ITEMS}/bulk", content=body, headers=headers)
    assert (answer.status_code, answer.headers["Content-Type"]) == (422, "application/problem+json")
    assert "no line of the body is an item; line " in answer.json()["detail"]

    async def parts() -> AsyncIterator[bytes]:
        for part in body.splitlines(keepends=True):
            yield part
            await asyncio.sleep(0.05)

    answer = await client.post(f"{ITEMS}/bulk", content=parts(), headers=headers)
    *_, last = [json.loads(line) for line in answer.content.splitlines()]
    assert (answer.status_code, last["summary"]["rejected"]) == (200, 2)
    assert last["summary"]["notes"] == ["no line of the body is an item"]


async def test_the_rows_may_come_after_the_header(client: AsyncClient) -> None:
    """Each part of the body as it arrives."""

    async def parts() -> AsyncIterator[bytes]:
        for part in (b"id,te", b"xt\n", b"late,one\n"):
            yield part
            await asyncio.sleep(0.01)

    answer = await client.post(f"{ITEMS}/bulk", content=parts(), headers={"Content-Type": "text/csv"})
    first, last = [json.loads(line) for line in answer.content.splitlines()]
    assert (first["line"], first["item_id"], last["summary"]["added"]) == (2, "late", 1)


async def test_a_search_right_after_it_knows_how_many_items_there_are(client: AsyncClient) -> None:
    """The relevance depends on that number."""
    await client.put("/v1/collections/fresh")
    body = lines({"id": str(number), "text": f"entry {number}"} for number in range(12))
    headers = {"Content-Type": "application/x-ndjson"}
    await client.post("/v1/collections/fresh/items/bulk", content=body, headers=headers)

    response = await client.post("/v1/collections/fresh/search", json={"query": "entry"})

    assert "12 items" in response.json()["why"]


async def test_each_line_has_its_outcome(client: AsyncClient) -> None:
    """The answers are in order; blank lines have none, bad lines do not affect others, and the last line sums up."""
    body = lines([{"id": "a", "text": "one"}, {"title": "no id"}, {"id": "b", "text": "b"}, {"id": "a", "text": "two"}])
    body += b'\n{"_id":"c", nonsense}\n\xff\n{"_id":"d","text":"' + b"x" * MAX_LINE_BYTES + b'"}\n{"_id":"e"}'

    *answered, last = await send(client, body)

    results = [(line["line"], line.get("item_id"), line.get("result")) for line in answered]
    assert results == [
        (1, "a", "added"), (2, None, None), (3, "b", "added"), (4, "a", "changed"),
        (6, None, None), (7, None, None), (8, None, None), (9, "e", "added"),
    ]  # fmt: skip
    problems = [line["error"] for line in answered if "error" in line]
    assert {(problem["type"], problem["status"]) for problem in problems} == {("/problems/invalid-item", 422)}
    assert [problem["detail"].split()[0] for problem in problems] == ["no", "not", "byte", "the"]
    counts = {
        "added": 3,
        "changed": 1,
        "unchanged": 0,
        "rejected": 4,
        "embedded": 2,
        "pending": 0,
        "cut": 0,
        "repeated": 1,
    }
    notes = [
        "1 id appears more than once; the last of each was kept",
        "1 of 4 items has no text; an item's 'title' and 'text' are searched",
    ]
    assert last == {"summary": {**counts, "notes": notes}}
    assert (await client.get(f"{ITEMS}/a")).json()["text"] == "two"


async def test_the_same_lines_again_change_nothing(client: AsyncClient) -> None:
    """However many there are, and however the stream is parted."""
    body = lines({"_id": f"n{number}", "text": "word"} for number in range(503))

    async def parted() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 777):
            yield body[start : start + 777]

    first, again = await send(client, body), await send(client, parted())

    assert [line["line"] for line in first[:-1]] == list(range(1, 504))
    assert first[-1]["summary"]["added"] == again[-1]["summary"]["unchanged"] == 503
    assert (await send(client, b""))[-1]["summary"]["added"] == 0


class Conversation:
    """A client that sends a line, and reads the answers meanwhile: at once, or once it ``is_reading``."""

    def __init__(self, client: AsyncClient) -> None:
        transport = client._transport  # noqa: SLF001 - the application behind the client
        assert isinstance(transport, ASGITransport)
        self._app = transport.app
        self._sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._heard: asyncio.Queue[bytes] = asyncio.Queue()
        self.is_reading = asyncio.Event()

    def begin(self, **headers: str) -> asyncio.Task[None]:
        """Send the head of the request; the task serves it."""
        path = f"{ITEMS}/bulk"
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
            "headers": [
                (b"host", b"localhost"), (b"transfer-encoding", b"chunked"), (b"content-type", b"application/x-ndjson"),
                *((name.replace("_", "-").lower().encode(), value.encode()) for name, value in headers.items()),
            ],
            "client": ("127.0.0.1", 1), "server": ("localhost", 80),
        }  # fmt: skip

        async def serve() -> None:
            await self._app(scope, self._sent.get, self._hear)

        return asyncio.create_task(serve())

    async def _hear(self, message: Any) -> None:
        await self.is_reading.wait()
        if message.get("body"):
            self._heard.put_nowait(message["body"])

    def say(self, body: bytes, *, more: bool = True) -> None:
        """Send a part of the body."""
        self._sent.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def hang_up(self) -> None:
        """Go away."""
        self._sent.put_nowait({"type": "http.disconnect"})

    @property
    def has_heard(self) -> bool:
        """Whether a part of the answer came that was not read yet."""
        return not self._heard.empty()

    async def hear(self) -> list[dict[str, Any]]:
        """The next lines of the answer."""
        return [json.loads(line) for line in (await self._heard.get()).splitlines()]


async def test_a_line_is_answered_before_the_next_one_is_sent(client: AsyncClient) -> None:
    """An answered line is stored, even if the client then disconnects in the middle of a line."""
    talk = Conversation(client)
    talk.is_reading.set()
    serving = talk.begin()
    for number in range(3):
        talk.say(lines([{"_id": f"talk{number}", "text": "word"}]))
        assert await talk.hear() == [{"line": number + 1, "item_id": f"talk{number}", "result": "added"}]
        assert (await client.get(f"{ITEMS}/talk{number}")).status_code == 200
    talk.say(b'{"_id":"half"')
    talk.hang_up()
    await serving
    assert [(await client.get(f"{ITEMS}/{name}")).status_code for name in ("talk2", "half")] == [200, 404]


@pytest.mark.parametrize("breaks", [False, True])
async def test_behind_a_proxy_the_answer_begins_after_the_body(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch, *, breaks: bool
) -> None:
    """nginx may stop passing a body on once the answer has begun; an error is answered at once."""
    talk = Conversation(client)
    talk.is_reading.set()
    serving = talk.begin(X_Forwarded_For="10.0.0.5")
    talk.say(lines([{"_id": f"proxied0-{breaks}", "text": "word"}]))
    while (await client.get(f"{ITEMS}/proxied0-{breaks}")).status_code != 200:
        pass  # it is being stored
    assert not talk.has_heard

    async def fail(*_: object, **__: object) -> None:
        raise DatabaseUnreachableError("away")

    if breaks:
        monkeypatch.setattr("retrieval.surfaces.http.bulk.add_each", fail)
    talk.say(lines([{"_id": f"proxied1-{breaks}", "text": "word"}]), more=breaks)
    answered = await talk.hear()
    await serving
    while talk.has_heard:
        answered += await talk.hear()
    assert answered[0]["item_id"] == f"proxied0-{breaks}"
    assert ("error" in answered[-1], answered[-1]["summary"]["added"]) == (breaks, 1 if breaks else 2)


async def test_a_client_that_reads_nothing_until_it_has_sent_all_is_served(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unsent answers do not stop the reading."""
    stored, store = asyncio.Event(), add_each

    async def noted(handle: CollectionHandle, items: Any, *, more: bool = False) -> Any:
        added = await store(handle, items, more=more)
        stored.set()
        return added

    monkeypatch.setattr("retrieval.surfaces.http.bulk.add_each", noted)
    talk = Conversation(client)
    serving = talk.begin()
    for number in range(3):
        stored.clear()
        talk.say(lines([{"_id": f"late{number}", "text": "word"}]))
        await stored.wait()
    talk.say(b"", more=False)
    talk.is_reading.set()
    await serving

    answered = [line for line in await talk.hear() if "line" in line]
    while len(answered) < 3:
        answered += [line for line in await talk.hear() if "line" in line]
    assert [line["item_id"] for line in answered] == ["late0", "late1", "late2"]


async def test_a_stream_that_breaks_says_so(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answered lines are stored; the client has to send the others again. The log has the reason."""
    store, calls = add_each, 0

    async def failing(handle: CollectionHandle, items: Any, *, more: bool = False) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise DatabaseUnreachableError("cannot reach PostgreSQL at db.example")
        return await store(handle, items, more=more)

    monkeypatch.setattr("retrieval.surfaces.http.bulk.add_each", failing)
    *answered, last = await send(client, lines({"_id": f"b{number}", "text": "word"} for number in range(600)))

    assert [line["item_id"] for line in answered] == [f"b{number}" for number in range(500)]
    assert last["summary"]["added"] == 500
    assert (last["error"]["type"], last["error"]["status"]) == ("/problems/database-unreachable", 503)
    assert last["error"]["request_id"]
    assert "db.example" not in json.dumps(last)
    assert "db.example" in caplog.text


async def test_a_stream_that_is_late_is_summed_up(client: AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client was silent for too long; answered lines stay stored."""

    async def at_once(handle: CollectionHandle, items: Any, *, more: bool = False) -> AddedEach:  # noqa: ARG001 - as the function
        return AddedEach()

    monkeypatch.setattr("retrieval.surfaces.http.bulk.add_each", at_once)
    talk = Conversation(client)
    talk.is_reading.set()
    serving = talk.begin(X_Request_Timeout="0.2")
    talk.say(lines([{"title": "no id"}]))
    assert [line["error"]["type"] for line in await talk.hear()] == ["/problems/invalid-item"]
    (last,) = await talk.hear()
    assert (last["summary"]["rejected"], last["error"]["type"]) == (1, "/problems/body-timeout")
    assert last["summary"]["notes"] == [], "the rest of the body is unknown"
    await serving


async def test_a_stream_whose_items_take_too_long_is_summed_up(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary says so, and the client may send the unanswered lines again."""

    async def endless(handle: CollectionHandle, items: Any, *, more: bool = False) -> Any:  # noqa: ARG001 - as the function
        await asyncio.Event().wait()

    monkeypatch.setattr("retrieval.surfaces.http.bulk.add_each", endless)
    talk = Conversation(client)
    talk.is_reading.set()
    serving = talk.begin(X_Request_Timeout="0.1")
    talk.say(lines([{"_id": "slow", "text": "word"}]), more=False)
    (last,) = await talk.hear()
    assert (last["summary"]["added"], last["error"]["type"]) == (0, "/problems/deadline")
    assert last["summary"]["notes"] == [], "the body has an item"
    await serving


@pytest.mark.parametrize("content_type", ["application/pdf", "application/x-www-form-urlencoded", ""])
async def test_a_body_of_another_type_is_refused_as_a_whole(client: AsyncClient, content_type: str) -> None:
    """The answer names the accepted types, instead of one error a line."""
    body = b"id,text\nB-1,Backups\n"
    answer = await client.post(
        f"{ITEMS}/bulk", content=body, headers={"Content-Type": content_type} if content_type else {}
    )
    assert (answer.status_code, answer.json()["type"]) == (415, "/problems/media-type")
    assert "or a CSV, with Content-Type: application/x-ndjson or text/csv" in answer.json()["detail"]


@pytest.mark.parametrize(
    "content_type", ["application/x-ndjson; charset=utf-8", "Application/JSONL", "application/ndjson"]
)
async def test_each_name_of_json_lines_is_taken(client: AsyncClient, content_type: str) -> None:
    """There is no registered one."""
    answer = await client.post(
        f"{ITEMS}/bulk", content=lines([{"_id": "t", "text": "word"}]), headers={"Content-Type": content_type}
    )
    assert answer.status_code == 200


async def test_a_stream_ends_if_another_collection_gets_the_name(client: AsyncClient, platform: Platform) -> None:
    """The items that were answered went with the former one."""

    async def lines() -> AsyncIterator[bytes]:
        yield b'{"_id": "first", "text": "x"}\n'
        await asyncio.sleep(0.5)
        await platform.remove_collection("twice")
        await platform.collection("twice")
        await asyncio.sleep(1.5)
        yield b'{"_id": "second", "text": "x"}\n'

    await client.put("/v1/collections/twice")
    headers = {"Content-Type": "application/x-ndjson"}
    answer = await client.post("/v1/collections/twice/items/bulk", content=lines(), headers=headers)
    last = json.loads(answer.content.splitlines()[-1])
    assert "was removed meanwhile, and another was made" in last["error"]["detail"]


async def test_an_unknown_collection_is_reported_before_the_body_is_read(client: AsyncClient) -> None:
    """As a problem document."""
    answer = await client.post("/v1/collections/nowhere/items/bulk", content=lines([{"_id": "a", "text": "word"}]))
    assert (answer.status_code, answer.json()["type"]) == (404, "/problems/unknown-collection")
