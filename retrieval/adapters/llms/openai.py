"""Ask a language model at an OpenAI-compatible chat completions endpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Any, Unpack

from retrieval.adapters.endpoints import OPENAI_URL
from retrieval.adapters.endpoints.breaker import LANGUAGE_MODEL
from retrieval.adapters.endpoints.client import CallLimits, EndpointClient
from retrieval.adapters.endpoints.endpoint import Endpoint
from retrieval.adapters.llms.json_shape import JSONShape, messages_of
from retrieval.domain.checks import encodable
from retrieval.domain.errors import ConfigurationError, LLMRejectedError

_MOST_ANSWER_BYTES = 2**20

# Some models put their reasoning before the answer.
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


def read_chat(answer: Any, endpoint: Endpoint) -> str:
    """The text of the first choice of an answer: not empty, without space around it.

    Raises ``LLMRejectedError`` for anything but a complete answer: the model's refusal, or an answer that is empty,
    filtered or cut at its length.
    """
    fields = answer if isinstance(answer, dict) else {}
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
    return encodable(text)


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


def response_format(form: Form, shape: JSONShape) -> dict[str, Any] | None:
    """The parameter of the request; None for an answer in words."""
    if form is Form.WORDS:
        return None
    schema = {"name": "answer", "schema": shape.schema, "strict": shape.is_strict}
    return {"type": form.value, **({"json_schema": schema} if form is Form.SCHEMA else {})}


class RefusedRequestError(LLMRejectedError):
    """The endpoint refuses something about the request, perhaps the form of the answer."""


CHAT = Endpoint(
    role=LANGUAGE_MODEL, serves="chat completions", operation="chat", settings="RETRIEVAL_LLM",
    where="RETRIEVAL_LLM_MODEL and RETRIEVAL_LLM_BASE_URL (it often ends in /v1)", refused_advice="RETRIEVAL_LLM_MODEL",
    too_long=LLMRejectedError, refused=RefusedRequestError,
)  # fmt: skip


_UNTIL_FORGOTTEN = 100
"""Answers after which the strictest form is tried again."""


class OpenAILLM(EndpointClient):
    """Asks over HTTP; calls are repeated as ``EndpointClient`` does.

    A JSON answer is requested with its schema (``json_schema``); as any JSON object (``json_object``) if the endpoint
    refuses that; and as text if it refuses that too. In each case the instructions contain the schema, and the answer
    is checked against it.
    """

    def __init__(
        self, *, model: str, api_key: str = "", base_url: str = OPENAI_URL, **limits: Unpack[CallLimits]
    ) -> None:
        """Check the options, without connecting. Raises ``ConfigurationError``, naming the setting.

        - ``api_key``: may be empty for an endpoint other than OpenAI's own.
        - ``limits``: at most 3 attempts and 8 requests at once by default.
        """
        if not isinstance(model, str) or not model or not model.isprintable():
            raise ConfigurationError("no language model is named; set RETRIEVAL_LLM_MODEL")
        self._model = model
        self.name = f"openai/{model}"
        """``openai/`` and the model, whatever the endpoint."""
        endpoint = replace(CHAT, url=base_url, model=model, api_key=api_key)
        super().__init__(endpoint, **CallLimits(max_attempts=3, max_concurrency=8) | limits)
        self._forms = list(Form)
        """The forms that the endpoint has not refused, the strictest first."""
        self._answers = 0

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
        forms = self._forms if shape.is_object else [Form.WORDS]
        for form in list(forms):
            try:
                text = await self._ask(messages, response_format(form, shape))
            except RefusedRequestError:
                if form is Form.WORDS:
                    raise
                continue
            self._answers += 1
            if self._answers % _UNTIL_FORGOTTEN == 0:
                self._forms = list(Form)
            elif shape.is_object:
                self._forms = forms[forms.index(form) :]
            return text
        raise AssertionError("an answer in words is the last form")

    async def _ask(self, messages: list[dict[str, str]], form: Mapping[str, Any] | None = None) -> str:
        request: dict[str, Any] = {"model": self._model, "messages": messages}
        if form is not None:
            request["response_format"] = form
        post = partial(self._post, "/chat/completions", request, most_bytes=_MOST_ANSWER_BYTES)
        return read_chat(await self._call(post), self._endpoint)
