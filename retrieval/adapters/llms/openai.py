"""Ask a language model at an OpenAI-compatible chat completions endpoint."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from retrieval.adapters.endpoints import OPENAI_URL
from retrieval.adapters.endpoints.breaker import LANGUAGE_MODEL
from retrieval.adapters.endpoints.caller import (
    EndpointCaller,
    EndpointUsage,
    check_address,
    check_key,
    check_positive,
    host_of,
)
from retrieval.adapters.endpoints.retries import Endpoint, EndpointService, Sleep, parsed_answer, total_tokens
from retrieval.adapters.llms.json_shape import JSONShape, messages_of
from retrieval.domain.checks import encodable, is_number
from retrieval.domain.errors import ConfigurationError, LLMRejectedError

_SETTINGS = "RETRIEVAL_LLM"
_LONGEST_MODEL = 200


def _check_options(model: object, temperature: float | None) -> None:
    """Raise ``ConfigurationError`` for values that cannot work."""
    if not model or not isinstance(model, str):
        raise ConfigurationError("no language model is named; set RETRIEVAL_LLM_MODEL")
    if len(model) > _LONGEST_MODEL or not model.isprintable():
        raise ConfigurationError(
            f"a model's name has at most {_LONGEST_MODEL} characters on one line; set RETRIEVAL_LLM_MODEL"
        )
    if temperature is not None and not is_number(temperature, 0, 2):
        raise ConfigurationError(f"temperature is {temperature!r:.80}; it is 0 to 2, or None")


# Some models put their reasoning before the answer.
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """One answered request."""

    text: str
    """Not empty, without space around it."""
    tokens: int
    """The server's count, the prompt's tokens included; 0 where it gives none."""


def read_chat(body: bytes, endpoint: Endpoint) -> ChatAnswer:
    """The first choice of an answer.

    Raises ``TryAgainError`` for a body that ends early, and ``LLMRejectedError`` for any other body without a complete
    answer: the model's refusal, or an answer that is empty, filtered or cut at its length.
    """
    fields = _fields(body, endpoint)
    choices = fields.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        raise LLMRejectedError(
            f"the answer of {endpoint.host} has no choices{_error(fields, endpoint)}; "
            "check that RETRIEVAL_LLM_MODEL is a model for chat"
        )
    _check_whole(first or {}, message, endpoint)
    text = _THOUGHTS.sub("", _text(message.get("content"))).strip()
    if not text:
        raise LLMRejectedError(f"{endpoint.model!r} gave an empty answer; ask again, or use another model")
    return ChatAnswer(encodable(text), total_tokens(fields))


def _fields(body: bytes, endpoint: Endpoint) -> dict[str, Any]:
    fields = parsed_answer(body, whose=f"the answer of {endpoint.host}", rejected=LLMRejectedError)
    if not isinstance(fields, dict):
        raise LLMRejectedError(
            "the address is not a chat completions endpoint: its answer is not a JSON object; "
            "check RETRIEVAL_LLM_BASE_URL (it often ends in /v1)"
        )
    return fields


def _check_whole(choice: dict[str, Any], message: dict[str, Any], endpoint: Endpoint) -> None:
    refusal, reason = message.get("refusal"), choice.get("finish_reason")
    if refusal and isinstance(refusal, str):
        raise LLMRejectedError(f"{endpoint.model!r} refused to answer: {endpoint.quoted(refusal)}; ask otherwise")
    if reason == "length":
        raise LLMRejectedError(
            f"the answer of {endpoint.model!r} was cut at its greatest length; ask for a shorter one"
        )
    if reason == "content_filter":
        raise LLMRejectedError(f"the answer of {endpoint.model!r} was filtered by {endpoint.host}; ask otherwise")


def _text(content: object) -> str:
    """The text of the content, which some servers split into parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _error(fields: dict[str, Any], endpoint: Endpoint) -> str:
    """The message of a server that reports an error with status 200; empty if there is none."""
    error = fields.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return f": {endpoint.quoted(message)}" if message and isinstance(message, str) else ""


class Form(StrEnum):
    """The forms of ``response_format``."""

    SCHEMA = "json_schema"
    """The schema itself, which the server enforces."""
    OBJECT = "json_object"
    """Any JSON object."""
    WORDS = "text"
    """No parameter: only the instructions name the form."""


def forms_of(shape: JSONShape) -> list[Form]:
    """The forms in which an answer of that shape can be requested, the strictest first."""
    return list(Form) if shape.is_object else [Form.WORDS]


def response_format(form: Form, shape: JSONShape) -> dict[str, Any] | None:
    """The parameter of the request; None for an answer in words."""
    if form is Form.WORDS:
        return None
    if form is Form.OBJECT:
        return {"type": form.value}
    return {
        "type": form.value,
        "json_schema": {"name": "answer", "schema": shape.schema, "strict": shape.is_strict},
    }


class RefusedRequestError(LLMRejectedError):
    """The endpoint refuses something about the request, perhaps the form of the answer."""


CHAT = EndpointService(
    serves="chat completions",
    operation="chat",
    key="RETRIEVAL_LLM_API_KEY",
    where="RETRIEVAL_LLM_MODEL and RETRIEVAL_LLM_BASE_URL (it often ends in /v1)",
    refused_advice="RETRIEVAL_LLM_MODEL",
    role=LANGUAGE_MODEL,
    too_long=LLMRejectedError,
    refused=RefusedRequestError,
)
"""Chat completions."""


_UNTIL_FORGOTTEN = 100
"""Answers after which the strictest form is tried again."""

_KNOWN_FORMS = 256


class OpenAILLM:
    """Asks over HTTP; belongs to the event loop that it is first used in.

    - A JSON answer is requested with its schema (``json_schema``); as any JSON object (``json_object``) if the endpoint
      refuses that; and as text if it refuses that too. In each case the instructions contain the schema, and the answer
      is checked against it.
    - Overload (408, 409, 425, 429, 5xx), broken connections, truncated answers and timeouts are retried with
      exponential backoff and jitter, not before ``Retry-After``. A ``Retry-After`` of more than 60 s is not awaited.
      A request that was answered completely is not repeated.
    """

    def __init__(
        self,
        *,
        model: str,
        api_key: str = "",
        base_url: str = OPENAI_URL,
        timeout_seconds: float = 30.0,
        max_attempts: int = 3,
        max_concurrency: int = 8,
        max_answer_bytes: int = 2**20,
        temperature: float | None = None,
        sleep: Sleep = asyncio.sleep,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Check the options, without connecting. Raises ``ConfigurationError``, naming the setting.

        - ``api_key``: may be empty for an endpoint other than OpenAI's own.
        - ``timeout_seconds``: for one attempt, from connecting to the last byte of the answer.
        - ``max_attempts``: for one request, the first one included.
        - ``max_concurrency``: requests under way at once, over all calls.
        - ``max_answer_bytes``: a longer answer is rejected while it arrives.
        - ``temperature``: 0 to 2; None: the model's own, because some models accept no other.
        - ``sleep``, ``rng``, ``now``: for waiting, for jitter, and (time zone aware) for a ``Retry-After`` date.
        """
        _check_options(model, temperature)
        check_positive(max_answer_bytes=max_answer_bytes)
        check_address(base_url, what="language model's", settings=_SETTINGS)
        check_key(api_key, base_url, what="language model's", settings=_SETTINGS)
        self._model, self._temperature, self._longest = model, temperature, max_answer_bytes
        self._endpoint = Endpoint(CHAT, host_of(base_url), model, api_key)
        self._caller = EndpointCaller(
            self._endpoint,
            base_url,
            timeout_seconds=timeout_seconds,
            max_concurrency=max_concurrency,
            max_attempts=max_attempts,
            sleep=sleep,
            rng=rng,
            now=now,
        )
        self._forms: dict[str, Form] = {}
        self._answers = 0

    @property
    def name(self) -> str:
        """``openai/`` and the model, whatever the endpoint."""
        return f"openai/{self._model}"

    @property
    def usage(self) -> EndpointUsage:
        """The requests and tokens so far."""
        return self._caller.usage

    async def complete(self, prompt: str, *, system: str = "") -> str:
        """The answer in words: not empty, without space around it.

        Raises ``LLMUnavailableError`` when the attempts are used up; ``LLMRejectedError`` for an empty prompt, a
        refusal of the server or the model, and an answer that is empty, cut, filtered or too long.
        """
        return await self._ask(messages_of(prompt, system))

    async def complete_json(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> Any:
        """An answer that fits the JSON schema, parsed and checked against it. Raises as ``complete`` does."""
        shape = JSONShape(schema)
        messages = messages_of(prompt, f"{system}\n\n{shape.instructions}".strip())
        return shape.read(await self._ask_for_json(messages, shape))

    async def _ask_for_json(self, messages: list[dict[str, str]], shape: JSONShape) -> str:
        """The answer in the first form that the endpoint does not refuse, which later requests begin with.

        After ``_UNTIL_FORGOTTEN`` answers they begin with the strictest form again, because a refusal may have had
        another reason.
        """
        forms = forms_of(shape)
        for form in forms[forms.index(self._forms.get(shape.key, forms[0])) :]:
            try:
                text = await self._ask(messages, response_format(form, shape))
            except RefusedRequestError:
                if form is forms[-1]:
                    raise
                continue
            self._answers += 1
            if self._answers % _UNTIL_FORGOTTEN == 0:
                self._forms.clear()
            elif len(self._forms) < _KNOWN_FORMS:
                self._forms[shape.key] = form
            return text
        raise LLMRejectedError(f"{self._endpoint.host} accepts no form of JSON answer; use another endpoint")

    async def _ask(self, messages: list[dict[str, str]], form: Mapping[str, Any] | None = None) -> str:
        request: dict[str, Any] = {"model": self._model, "messages": messages}
        if self._temperature is not None:
            request["temperature"] = self._temperature
        if form is not None:
            request["response_format"] = form
        return await self._caller.call(lambda: self._post(request))

    async def _post(self, request: dict[str, Any]) -> str:
        """One request. Raises the client's errors, ``TryAgainError`` or ``LLMRejectedError``."""
        body = await self._caller.post("/chat/completions", request, most_bytes=self._longest)
        answer = read_chat(body, self._endpoint)
        self._caller.count_tokens(answer.tokens)
        return answer.text

    async def aclose(self) -> None:
        """Close the connections."""
        await self._caller.aclose()
