"""The OpenAI language model against a real HTTP server."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from retrieval.adapters.endpoints.client import EndpointUsage
from retrieval.adapters.llms import openai as module
from retrieval.adapters.llms.openai import OpenAILLM
from retrieval.domain.errors import LLMError, LLMRejectedError, LLMUnavailableError
from retrieval.testing import check_llm, check_unreachable_llm
from tests.support.openai_server import Fault, OpenAIServer, broken_off, chat_answer, endless, hanging, raw, status

KEY = "sk-secret-0123456789"
NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)
PROMPT = "name one colour"
COLOUR = {
    "type": "object",
    "properties": {"colour": {"type": "string", "minLength": 1}},
    "required": ["colour"],
    "additionalProperties": False,
}


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    """A healthy server."""
    async with OpenAIServer() as running:
        yield running


@pytest.fixture
def waits() -> list[float]:
    """The seconds that the model wanted to wait."""
    return []


@pytest.fixture
async def make(server: OpenAIServer, waits: list[float]) -> AsyncIterator[Callable[..., OpenAILLM]]:
    """Makes language models of the server that do not really wait, and closes them."""
    models: list[OpenAILLM] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    def llm(**options: Any) -> OpenAILLM:
        usual = {"api_key": KEY, "base_url": server.url, "model": "small", "sleep": sleep}
        models.append(OpenAILLM(**{**usual, "rng": random.Random(7), "now": lambda: NOW, **options}))
        return models[-1]

    yield llm
    for model in models:
        await model.aclose()


async def failure(llm: OpenAILLM, prompt: str = PROMPT, schema: dict[str, Any] | None = COLOUR) -> LLMError:
    """The error of a request; one line, which never contains the key."""
    with pytest.raises(LLMError) as caught:
        await (llm.complete(prompt) if schema is None else llm.complete_json(prompt, schema))
    assert KEY not in repr(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("forms", [("json_schema", "json_object", "text"), ("text",)])
async def test_keeps_the_contract_of_language_models(forms: tuple[str, ...]) -> None:
    """It passes the conformance suite, whichever forms of answer the server knows."""
    async with OpenAIServer(forms=frozenset(forms)) as server:
        await check_llm(lambda: OpenAILLM(model="small", base_url=server.url), deterministic=True)


async def test_the_contract_holds_without_a_server() -> None:
    """A refused connection is unavailable, and it closes."""
    await check_unreachable_llm(lambda: OpenAILLM(model="small", base_url="http://127.0.0.1:1/v1", max_attempts=1))


async def test_a_request_has_model_key_and_prompts(make: Callable[..., OpenAILLM], server: OpenAIServer) -> None:
    """It sends nothing else unless requested: some models accept no temperature and no response format."""
    llm = make()
    await llm.complete(PROMPT)
    await llm.complete(PROMPT, system="be brief")
    plain, with_system = (request.body for request in server.received)
    assert llm.name == "openai/small"
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert plain == {"model": "small", "messages": [{"role": "user", "content": PROMPT}]}
    assert with_system["messages"][0] == {"role": "system", "content": "be brief"}


async def test_json_is_requested_by_its_schema(make: Callable[..., OpenAILLM], server: OpenAIServer) -> None:
    """Strictly where the schema is closed; the instructions hold it too, for servers that do not heed it."""
    await make().complete_json(PROMPT, COLOUR, system="be brief")
    await make().complete_json(PROMPT, {"type": "object", "properties": {"colour": {}}})
    closed, opened = (request.body["response_format"]["json_schema"] for request in server.received)
    assert (closed["schema"], closed["strict"], opened["strict"]) == (COLOUR, True, False)
    system = server.received[0].body["messages"][0]["content"]
    assert system.startswith("be brief\n\n")
    assert json.loads(system.partition("JSON schema: ")[2]) == COLOUR


async def test_a_refused_form_is_not_requested_again(make: Callable[..., OpenAILLM], server: OpenAIServer) -> None:
    """The form that a server accepts is remembered; a schema that is not an object has no form."""
    server.forms = frozenset({"json_object", "text"})
    llm = make()
    for _ in range(2):
        assert set(await llm.complete_json(PROMPT, COLOUR)) == {"colour"}
    await llm.complete_json(PROMPT, {"type": "array", "items": {"type": "integer"}})
    assert [request.form for request in server.received] == ["json_schema", "json_object", "json_object", "text"]
    assert llm.usage.retries == 0


async def test_a_stricter_form_is_tried_again_after_a_while(
    make: Callable[..., OpenAILLM], server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One refusal may have had another reason."""
    monkeypatch.setattr("retrieval.adapters.llms.openai._UNTIL_FORGOTTEN", 2)
    server.faults.append(status(400, said="busy"))
    llm = make()
    for _ in range(3):
        await llm.complete_json(PROMPT, COLOUR)
    assert [request.form for request in server.received] == ["json_schema", "json_object", "json_object", "json_schema"]


async def test_a_request_that_no_form_helps_is_rejected(make: Callable[..., OpenAILLM], server: OpenAIServer) -> None:
    """After the last form, the error quotes the server."""
    server.faults.extend([status(400, said="no such parameter")] * 3)
    error = await failure(make())
    assert isinstance(error, LLMRejectedError)
    assert "no such parameter" in str(error)
    assert len(server.received) == 3


@pytest.mark.parametrize(
    "fault",
    [status(429), status(500), broken_off, raw(b'{"choices": [{"mess')],
    ids=["429", "500", "broken off", "cut JSON"],
)
async def test_passing_failures_are_tried_again(
    make: Callable[..., OpenAILLM], server: OpenAIServer, waits: list[float], fault: Fault
) -> None:
    """Overload, broken connections and answers cut short are retried after growing waits."""
    server.faults.extend([fault, fault])
    llm = make()
    assert await llm.complete(PROMPT)
    assert llm.usage == EndpointUsage(requests=3, tokens=6, retries=2)
    assert 0.25 <= waits[0] <= 0.5 <= waits[1] <= 1.0


async def test_a_server_that_stays_silent_is_unavailable(make: Callable[..., OpenAILLM], server: OpenAIServer) -> None:
    """After the last attempt the error says how long it waited and how often."""
    server.faults.extend([hanging] * 2)
    error = await failure(make(timeout_seconds=0.05, max_attempts=2))
    assert isinstance(error, LLMUnavailableError)
    assert re.search(r"did not answer within 0\.0[1-5] seconds \(tried 2 times\)", str(error))


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        (status(401, said=f"Incorrect API key provided: {KEY}"), "RETRIEVAL_LLM_API_KEY"),
        (status(404, said="The model does not exist"), "RETRIEVAL_LLM_MODEL"),
        (status(400, said="This model's maximum context length is 8192 tokens"), "too many tokens"),
    ],
    ids=["401", "404", "too long"],
)
async def test_refusals_say_what_to_do(
    make: Callable[..., OpenAILLM], server: OpenAIServer, fault: Fault, advice: str
) -> None:
    """A refusal is neither retried nor asked for in another form; its message names the next step."""
    server.faults.append(fault)
    error = await failure(make())
    assert isinstance(error, LLMRejectedError)
    assert advice in str(error)
    assert len(server.received) == 1


UNUSABLE: list[tuple[Fault, str]] = [
    (chat_answer("The colour is red."), "not JSON"),
    (chat_answer('{"colour": 3}'), "does not fit the schema at $.colour"),
    (chat_answer(""), "empty answer"),
    (chat_answer(None, refusal=f"I will not\nsay {KEY}"), "refused to answer: I will not say [key]"),
    (chat_answer('{"colour": "r', finish_reason="length"), "cut at its greatest length"),
    (raw(b'{"choices": []}'), "no choice"),
    (raw(b"<html>Welcome</html>", "text/html"), "RETRIEVAL_LLM_BASE_URL"),
    (endless, "longer than 65536 bytes"),
]
"""Unusable answers, each with a part of its error message."""


async def test_unusable_answers_are_rejected(
    make: Callable[..., OpenAILLM], server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is refused with its reason, and not asked for again."""
    monkeypatch.setattr(module, "_MOST_ANSWER_BYTES", 2**16)
    llm = make()
    for calls, (fault, reason) in enumerate(UNUSABLE, start=1):
        server.faults.append(fault)
        error = await failure(llm)
        assert isinstance(error, LLMRejectedError)
        assert reason in str(error)
        assert len(server.received) == calls


async def test_requests_are_bounded(make: Callable[..., OpenAILLM], server: OpenAIServer) -> None:
    """Over all calls no more are under way than allowed."""
    server.open_gate.clear()
    llm = make(max_concurrency=2)
    calls = [asyncio.create_task(llm.complete(f"{PROMPT} {number}")) for number in range(5)]
    await server.arrived(2)
    server.open_gate.set()
    await asyncio.gather(*calls)
    assert (server.most_waiting, len(server.received)) == (2, 5)


async def test_cancelling_breaks_off_the_request(make: Callable[..., OpenAILLM], server: OpenAIServer) -> None:
    """A cancelled call leaves no request under way."""
    server.faults.append(hanging)
    call = asyncio.create_task(make().complete(PROMPT))
    await server.arrived(1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await server.cancelled.wait()


async def test_a_schema_is_never_fetched(make: Callable[..., OpenAILLM], server: OpenAIServer) -> None:
    """A reference that leads out of the schema is an error, not a request."""
    elsewhere = {"type": "object", "properties": {"colour": {"$ref": server.url.removesuffix("/v1")}}}
    server.faults.append(chat_answer('{"colour": "red"}'))
    assert "cannot be followed" in str(await failure(make(), schema=elsewhere))
    assert len(server.received) == 1


async def test_the_key_stays_out_of_the_log(
    make: Callable[..., OpenAILLM], server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Retries are logged with their reason, and no log of any level holds the key."""
    caplog.set_level("DEBUG")
    server.faults.append(status(500, said=f"overloaded for {KEY}"))
    await make().complete(PROMPT)
    assert "overloaded for [key]" in caplog.text
    assert KEY not in caplog.text
