"""The OpenAI embedder against a real HTTP server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from retrieval import Settings
from retrieval.adapters.embedders.batching import measure_of
from retrieval.adapters.embedders.chosen import configured_embedder
from retrieval.adapters.embedders.hashing import hashed_vector
from retrieval.adapters.embedders.openai import OpenAIEmbedder
from retrieval.adapters.embedders.services import DESTINATIONS
from retrieval.adapters.endpoints.client import EndpointUsage
from retrieval.domain.errors import EmbedderError, EmbedderRejectedError, EmbedderUnavailableError
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.testing import check_embedder
from tests.support.openai_server import (
    Fault,
    OpenAIServer,
    broken_off,
    changed,
    endless,
    endless_refusal,
    hanging,
    raw,
    status,
)

KEY = "sk-secret-0123456789"
TEXTS = ["one red apple", "two green pears", "three blue plums"]
NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    """A healthy server."""
    async with OpenAIServer() as running:
        yield running


@pytest.fixture
def waits() -> list[float]:
    """The seconds that the embedder wanted to wait."""
    return []


@pytest.fixture
async def make(server: OpenAIServer, waits: list[float]) -> AsyncIterator[Callable[..., OpenAIEmbedder]]:
    """Makes embedders of the server's model that do not really wait, and closes them."""
    embedders: list[OpenAIEmbedder] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    def embedder(**options: Any) -> OpenAIEmbedder:
        usual = {"api_key": KEY, "base_url": server.url, "model": "small", "dimensions": 64, "sleep": sleep}
        embedders.append(OpenAIEmbedder(**{**usual, "rng": random.Random(7), "now": lambda: NOW, **options}))
        return embedders[-1]

    yield embedder
    for client in embedders:
        await client.aclose()


async def test_where_a_key_alone_chose_the_service_the_log_says_once_where_texts_go(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Before the first text leaves; not where ``RETRIEVAL_EMBEDDER`` names the service."""
    values = {"openai_api_key": "key", "openai_base_url": server.url, "embedding_model": "small"}
    keyed = Settings().changed(**values, embedding_dimensions=64, embedder="auto")
    for settings in (keyed.changed(embedder="openai"), keyed, keyed):
        embedder = configured_embedder(settings)
        assert embedder is not None
        await embedder.embed(["a"], TextRole.DOCUMENT)
        await embedder.embed(["b"], TextRole.QUERY)
        await embedder.aclose()

    [notice] = [record.getMessage() for record in caplog.records if record.name == DESTINATIONS]
    host = server.url.split("/")[2]
    assert notice.startswith(
        f"texts are sent to OpenAI at {host}, to be embedded by small, because OPENAI_API_KEY is set"
    )
    assert "RETRIEVAL_EMBEDDER=minilm keeps them on this machine" in notice


def expected(*texts: str) -> Vectors:
    """The server's vectors of the texts."""
    return np.stack([hashed_vector(text, 64) for text in texts])


async def failure(embedder: OpenAIEmbedder, texts: list[str] | None = None) -> EmbedderError:
    """The error of embedding; it never contains the key."""
    with pytest.raises(EmbedderError) as caught:
        await embedder.embed(texts or TEXTS, TextRole.DOCUMENT)
    assert KEY not in repr(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("float_lists", [False, True])
async def test_keeps_the_contract_of_embedders(float_lists: bool) -> None:  # noqa: FBT001
    """It passes the conformance suite, whether the server answers in base64 or in lists of numbers."""
    async with OpenAIServer(float_lists=float_lists) as server:
        await check_embedder(
            lambda: OpenAIEmbedder(
                api_key=KEY,
                base_url=server.url,
                model="small",
                dimensions=64,
                document_prefix="passage: ",
                query_prefix="passage: query: ",
                max_texts=2,
            )
        )


async def test_vectors_are_the_servers_own(make: Callable[..., OpenAIEmbedder], server: OpenAIServer) -> None:
    """It returns what the server computed, and sends model, key and dimensions."""
    vectors = await make().embed(TEXTS, TextRole.DOCUMENT)
    np.testing.assert_allclose(vectors, expected(*TEXTS), atol=1e-6)
    (request,) = server.received
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert (request.body["model"], request.body["dimensions"], request.texts) == ("small", 64, TEXTS)


async def test_dimensions_are_not_sent_if_so_configured(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer
) -> None:
    """Servers with models of fixed size are not told the dimensions."""
    await make(send_dimensions=False).embed(TEXTS, TextRole.DOCUMENT)
    assert "dimensions" not in server.received[0].body


async def test_a_repeated_text_is_sent_once(make: Callable[..., OpenAIEmbedder], server: OpenAIServer) -> None:
    """A text is paid for once a call."""
    vectors = await make().embed([TEXTS[0], TEXTS[1], TEXTS[0]], TextRole.DOCUMENT)
    assert server.received[0].texts == TEXTS[:2]
    np.testing.assert_array_equal(vectors[0], vectors[2])


async def test_no_texts_ask_nothing(make: Callable[..., OpenAIEmbedder], server: OpenAIServer) -> None:
    """An empty call sends no request."""
    assert (await make().embed([], TextRole.QUERY)).shape == (0, 64)
    assert server.received == []


async def test_an_empty_text_is_sent_as_a_space(make: Callable[..., OpenAIEmbedder], server: OpenAIServer) -> None:
    """The API refuses empty texts, so the embedder sends one space instead."""
    await make().embed(["", "full"], TextRole.DOCUMENT)
    assert server.received[0].texts == [" ", "full"]


async def test_half_a_surrogate_pair_is_replaced(make: Callable[..., OpenAIEmbedder], server: OpenAIServer) -> None:
    """Characters that UTF-8 cannot hold do not fail the request."""
    await make().embed(["a\ud800b"], TextRole.QUERY)
    assert server.received[0].texts == ["a?b"]


async def test_texts_beyond_the_model_are_cut(make: Callable[..., OpenAIEmbedder], server: OpenAIServer) -> None:
    """A text is cut at three bytes a token, between two characters."""
    await make(max_input_tokens=3).embed(["éééééé"], TextRole.DOCUMENT)
    assert server.received[0].texts == ["éééé"]


async def test_a_text_that_is_still_too_long_is_cut_alone(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer
) -> None:
    """A text with more tokens than estimated is cut to a byte a token; the other texts of its batch stay whole."""
    server.max_text_bytes = 20
    dense, near = "0123456789" * 3, "exactly twenty bytes"
    vectors = await make(max_input_tokens=10).embed([near, dense, "short"], TextRole.DOCUMENT)
    np.testing.assert_allclose(vectors, expected(near, dense[:10], "short"), atol=1e-6)


async def test_texts_that_were_cut_have_too_many_tokens(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer
) -> None:
    """By the estimate, or by the server's count; the other texts of the batch are not counted."""
    server.max_text_bytes = 20
    embedder = make(max_input_tokens=10)
    texts = ["0123456789" * 3, "exactly twenty bytes", "x" * 31]
    assert [tokens > embedder.max_tokens for tokens in embedder.count_tokens(texts)] == [False, False, True]
    await embedder.embed(texts, TextRole.DOCUMENT)
    assert [tokens > embedder.max_tokens for tokens in embedder.count_tokens(texts)] == [True, False, True]


async def test_texts_that_a_model_of_an_unknown_limit_refuses_are_counted(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer
) -> None:
    """Its limit may be lower than the one that is assumed, by which they would fit."""
    server.max_text_bytes = 400
    embedder = make(max_input_tokens=8000)
    texts = ["0123456789" * 50, "short", "0123456789" * 60]
    await embedder.embed(texts, TextRole.DOCUMENT)
    assert measure_of(embedder).number_cut(texts) == 2


async def test_a_server_with_a_smaller_model_says_which_option(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer
) -> None:
    """When even the shortest cut is refused, the message names the option to change."""
    server.max_text_bytes = 5
    error = await failure(make(max_input_tokens=10), ["0123456789" * 3])
    assert isinstance(error, EmbedderRejectedError)
    assert "max_input_tokens" in str(error)


async def test_batches_run_side_by_side_within_the_bound(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer
) -> None:
    """Over all calls no more requests are under way than allowed, and that many are."""
    server.open_gate.clear()
    embedder = make(max_texts=1, max_concurrency=3)
    calls = [asyncio.create_task(embedder.embed(TEXTS[::step], TextRole.DOCUMENT)) for step in (1, -1)]
    await server.arrived(3)
    server.open_gate.set()
    forward, backward = await asyncio.gather(*calls)
    assert (server.most_waiting, len(server.received)) == (3, 6)
    np.testing.assert_allclose(forward, expected(*TEXTS), atol=1e-6)
    np.testing.assert_array_equal(forward, backward[::-1])


@pytest.mark.parametrize(
    "fault",
    [status(429), status(500), status(503), status(408), broken_off, raw(b""), raw(b'{"data": [{"embe')],
    ids=["429", "500", "503", "408", "broken off", "empty body", "cut JSON"],
)
async def test_passing_failures_are_tried_again(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer, waits: list[float], fault: Fault
) -> None:
    """Overload, broken connections and answers cut short are retried after growing waits."""
    server.faults.extend([fault, fault])
    embedder = make()
    vectors = await embedder.embed(TEXTS, TextRole.DOCUMENT)
    np.testing.assert_allclose(vectors, expected(*TEXTS), atol=1e-6)
    assert embedder.usage == EndpointUsage(requests=3, tokens=9, retries=2)
    assert 0.25 <= waits[0] <= 0.5 <= waits[1] <= 1.0


async def test_a_silent_server_is_given_up_and_tried_again(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer
) -> None:
    """An attempt ends after its timeout; the next one may succeed."""
    server.faults.append(hanging)
    embedder = make(timeout_seconds=0.2)
    assert len(await embedder.embed(TEXTS, TextRole.DOCUMENT)) == 3
    assert embedder.usage.retries >= 1
    await server.cancelled.wait()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7), ("Tue, 01 Jan 2030 12:00:30 GMT", 30), ("Tue, 01 Jan 2030 11:00:00 GMT", 0), ("60", 60)],
)
async def test_retry_after_is_honoured(
    make: Callable[..., OpenAIEmbedder],
    server: OpenAIServer,
    waits: list[float],
    value: str,
    seconds: float,
) -> None:
    """The next attempt comes not sooner than asked, and at most half a second later."""
    server.faults.append(status(429, retry_after=value))
    await make().embed(TEXTS, TextRole.DOCUMENT)
    assert seconds <= waits[0] <= seconds + 0.5


async def test_a_long_retry_after_is_given_up_at_once(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer, waits: list[float]
) -> None:
    """The call does not wait for an hour; the message names the requested wait."""
    server.faults.append(status(429, retry_after="3600"))
    error = await failure(make())
    assert isinstance(error, EmbedderUnavailableError)
    assert "3600 seconds" in str(error)
    assert waits == []


async def test_attempts_are_bounded(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer, waits: list[float]
) -> None:
    """After the last attempt the error says what happened and how often it was tried."""
    server.faults.extend([status(500, said="on fire")] * 3)
    error = await failure(make(max_attempts=3))
    assert isinstance(error, EmbedderUnavailableError)
    assert "500: on fire (tried 3 times)" in str(error)
    assert len(waits) == 2


async def test_no_server_is_unavailable(make: Callable[..., OpenAIEmbedder]) -> None:
    """A refused connection is retried and then said, with the address."""
    error = await failure(make(base_url="http://user:pass@127.0.0.1:1/v1", max_attempts=2))
    assert isinstance(error, EmbedderUnavailableError)
    assert "127.0.0.1:1" in str(error)
    assert "pass" not in str(error)


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        (status(401, said=f"Incorrect API key provided: {KEY}"), "RETRIEVAL_EMBEDDING_API_KEY"),
        (status(403, said=f"{KEY} has no access"), "choose another"),
        (status(404, said="The model does not exist"), "check RETRIEVAL_EMBEDDER=openai:MODEL@ADDRESS"),
        (status(400, said=f"bad\nrequest by {KEY}"), "RETRIEVAL_EMBEDDING_DIMENSIONS"),
        (status(429, kind="insufficient_quota"), "billing"),
    ],
    ids=["401", "403", "404", "400", "quota"],
)
async def test_refusals_say_what_to_do(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer, fault: Fault, advice: str
) -> None:
    """A refusal is not retried; its message names the next step and never the key."""
    server.faults.append(fault)
    error = await failure(make())
    assert isinstance(error, EmbedderRejectedError)
    assert advice in str(error)
    assert len(server.received) == 1


def _set(value: object) -> Callable[[list[dict[str, Any]]], object]:
    return lambda rows: rows[1].update(embedding=value)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (changed(lambda rows: [row.update(embedding=[1.0] * 32) for row in rows]), "DIMENSIONS=32"),
        (changed(_set([1.0] * 63)), "63 dimensions, not 64"),
        (changed(_set([1.0] * 63 + [None])), "NaN"),
        (changed(_set([float("nan")] * 64)), "NaN"),
        (changed(_set([0.0] * 64)), "zero"),
        (changed(_set(None)), "not a list of numbers"),
        (changed(_set("not base64!")), "not a list of numbers"),
        (changed(lambda rows: rows.pop()), "2 vectors for 3 texts"),
        (changed(lambda rows: rows[0].update(index=1)), "match no texts"),
        (changed(lambda rows: rows[0].update(index=[0])), "match no texts"),
        (changed(_set(["1"] * 64)), "not a list of numbers"),
        (changed(_set([10**400] * 64)), "not a list of numbers"),
        (changed(lambda rows: [row.update(index=row["index"] == 1) for row in rows[:2]]), "match no texts"),
        (raw(b'{"data": [{"index": 0, "index": 1, "embedding": [1]}]}'), "the member 'index' occurs twice"),
        (raw(b'{"data": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nested too deeply"),
        (raw(b'{"data": "\xff"}'), "is not UTF-8"),
        (
            raw('{"data": []}'.encode("utf-16")),
            "check RETRIEVAL_EMBEDDER=openai:MODEL@ADDRESS (an address often ends in /v1)",
        ),
        (
            raw(b"<html>Welcome</html>", "text/html"),
            "check RETRIEVAL_EMBEDDER=openai:MODEL@ADDRESS (an address often ends in /v1)",
        ),
        (raw(b"[]"), "'data'"),
        (raw(b'{"error": "no"}'), "'data'"),
    ],
    ids=[
        "dimensions",
        "one of another dimension",
        "null",
        "NaN",
        "zero",
        "no vector",
        "no base64",
        "missing row",
        "double index",
        "list as index",
        "texts",
        "too large",
        "boolean index",
        "an index twice in a row",
        "nested",
        "bytes",
        "UTF-16",
        "web page",
        "no object",
        "no data",
    ],
)
async def test_unusable_answers_are_rejected(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer, fault: Fault, message: str
) -> None:
    """An answer that holds no usable vectors is refused with the reason, and not asked for again."""
    server.faults.append(fault)
    error = await failure(make())
    assert isinstance(error, EmbedderRejectedError)
    assert message in str(error)
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("fault", "message"), [(endless, "longer than 65536 bytes"), (endless_refusal, "refused the key (401)")]
)
async def test_an_answer_without_end_is_not_read_on(
    make: Callable[..., OpenAIEmbedder],
    server: OpenAIServer,
    fault: Fault,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither an answer nor a refusal may fill the memory; the call ends long before its time is used up."""
    monkeypatch.setattr("retrieval.adapters.endpoints.client.MOST_ANSWER_BYTES", 2**16)
    server.faults.append(fault)
    async with asyncio.timeout(10):
        error = await failure(make())
    assert isinstance(error, EmbedderRejectedError)
    assert message in str(error)


async def test_one_vector_too_few_for_one_text(make: Callable[..., OpenAIEmbedder], server: OpenAIServer) -> None:
    """A smaller request cannot help, so the message does not advise one."""
    server.faults.append(raw(b'{"data": []}'))
    with pytest.raises(EmbedderRejectedError, match="0 vectors for 1 text; use another endpoint"):
        await make().embed(TEXTS[:1], TextRole.QUERY)


async def test_rows_out_of_order_are_put_in_order(make: Callable[..., OpenAIEmbedder], server: OpenAIServer) -> None:
    """A vector is assigned by its index, whatever its position in the answer."""
    server.faults.append(changed(lambda rows: rows.reverse()))
    vectors = await make().embed(TEXTS, TextRole.DOCUMENT)
    np.testing.assert_allclose(vectors, expected(*TEXTS), atol=1e-6)


async def test_cancelling_breaks_off_the_requests(make: Callable[..., OpenAIEmbedder], server: OpenAIServer) -> None:
    """A cancelled call leaves no request under way."""
    server.faults.append(hanging)
    call = asyncio.create_task(make().embed(TEXTS, TextRole.DOCUMENT))
    await server.arrived(1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await server.cancelled.wait()


async def test_one_refused_batch_breaks_off_the_others(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer
) -> None:
    """If one batch fails permanently, the call raises its error and cancels the others."""
    server.open_gate.clear()
    server.faults.extend([hanging, status(401)])
    call = asyncio.create_task(failure(make(max_texts=1, max_concurrency=2)))
    await server.arrived(2)
    server.open_gate.set()
    assert "(401)" in str(await call)
    await server.cancelled.wait()


async def test_a_closed_embedder_says_so(make: Callable[..., OpenAIEmbedder]) -> None:
    """Embedding after closing is refused, not an obscure failure."""
    embedder = make()
    async with aclosing(embedder):
        pass
    assert "closed" in str(await failure(embedder))


async def test_one_that_is_closed_between_two_attempts_says_so(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer
) -> None:
    """The platform may be closed while a call waits."""
    server.faults.append(status(503))

    async def close(_: float) -> None:
        await embedder.aclose()

    embedder = make(sleep=close)
    assert "closed" in str(await failure(embedder))


async def test_the_key_stays_out_of_the_log(
    make: Callable[..., OpenAIEmbedder], server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Retries are logged with their reason, and no log of any level holds the key."""
    caplog.set_level("DEBUG")
    server.faults.append(status(500, said=f"overloaded for {KEY}"))
    await make().embed(TEXTS, TextRole.DOCUMENT)
    assert "overloaded for [key]" in caplog.text
    assert KEY not in caplog.text
