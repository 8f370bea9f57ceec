"""Reading the answer of an OpenAI-compatible chat completions endpoint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from retrieval.adapters.endpoints.refusals import Endpoint, fields_of
from retrieval.domain.errors import LLMRejectedError

_LONGEST_DETAIL = 200
# Models that think aloud may put it before the answer.
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """One answered request."""

    text: str
    """Not empty, without space around it."""
    tokens: int
    """As the server counted them, those of the prompt included; 0 when it does not."""


def read_chat(body: bytes, endpoint: Endpoint) -> ChatAnswer:
    """The first choice of an answer.

    Raises ``TryAgainError`` for a body that ends early and ``LLMRejectedError`` for any other that holds no whole
    answer: a refusal of the model, one that was cut at its length or filtered, an empty one.
    """
    fields = _fields(body, endpoint)
    choices = fields.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        raise LLMRejectedError(
            f"{endpoint.host} gave no choice of an answer{_error(fields, endpoint)}; "
            "check that RETRIEVAL_LLM_MODEL is a model for chat"
        )
    _check_whole(first or {}, message, endpoint)
    text = _THOUGHTS.sub("", _text(message.get("content"))).strip()
    if not text:
        raise LLMRejectedError(f"{endpoint.model!r} gave an empty answer; ask again, or use another model")
    return ChatAnswer(_encodable(text), _tokens(fields))


def _fields(body: bytes, endpoint: Endpoint) -> dict[str, Any]:
    fields = fields_of(body, whose=f"the answer of {endpoint.host}", rejected=LLMRejectedError)
    if fields is None:
        raise LLMRejectedError(
            "the address is no chat completions endpoint: it answered with something other than a JSON object; "
            "check RETRIEVAL_LLM_BASE_URL (it often ends in /v1)"
        )
    return fields


def _check_whole(choice: dict[str, Any], message: dict[str, Any], endpoint: Endpoint) -> None:
    refusal, reason = message.get("refusal"), choice.get("finish_reason")
    if refusal and isinstance(refusal, str):
        raise LLMRejectedError(f"{endpoint.model!r} refused to answer: {_said(refusal, endpoint)}; ask otherwise")
    if reason == "length":
        raise LLMRejectedError(f"the answer of {endpoint.model!r} was cut at its longest; ask for a shorter one")
    if reason == "content_filter":
        raise LLMRejectedError(f"the answer of {endpoint.model!r} was filtered by {endpoint.host}; ask otherwise")


def _text(content: object) -> str:
    """The content, which some servers give in parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _error(fields: dict[str, Any], endpoint: Endpoint) -> str:
    """What a server says that reports an error with status 200; empty where it says nothing."""
    error = fields.get("error")
    said = error.get("message") if isinstance(error, dict) else error
    return f": {_said(said, endpoint)}" if said and isinstance(said, str) else ""


def _said(words: str, endpoint: Endpoint) -> str:
    # A terminal would obey what is not printable.
    printable = "".join(one for one in " ".join(words.split()) if one.isprintable())
    return endpoint.without_key(printable)[:_LONGEST_DETAIL].rstrip(".")


def _encodable(text: str) -> str:
    """Half a surrogate pair, which UTF-8 cannot hold, becomes a question mark."""
    return text.encode(errors="replace").decode()


def _tokens(fields: dict[str, Any]) -> int:
    usage = fields.get("usage")
    counted = usage.get("total_tokens") if isinstance(usage, dict) else None
    return counted if isinstance(counted, int) and counted > 0 else 0
