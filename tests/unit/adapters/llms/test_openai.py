"""The OpenAI language model: its options, and the answers of an endpoint, read or refused with the reason."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from retrieval.adapters.endpoints.endpoint import TryAgainError, total_tokens
from retrieval.adapters.llms.json_shape import JSONShape
from retrieval.adapters.llms.openai import CHAT, OpenAILLM, read_chat
from retrieval.domain.errors import ConfigurationError, LLMRejectedError

KEY = "sk-secret-0123456789"
ENDPOINT = replace(CHAT, url="http://host:1/v1", model="small", api_key=KEY)
COLOUR = JSONShape(
    {
        "type": "object",
        "properties": {"colour": {"type": "string"}},
        "required": ["colour"],
        "additionalProperties": False,
    }
)


def read(answer: bytes) -> str:
    """The text of an answer's body."""
    return read_chat(ENDPOINT.parsed(answer), ENDPOINT)


def body(content: object, *, finish_reason: str = "stop", **message: object) -> bytes:
    """An answer with that content; ``message`` has its other members."""
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"content": content, **message}}
    return json.dumps({"choices": [choice]}).encode()


def test_the_first_choice_is_the_answer() -> None:
    """Without the space around it."""
    assert read(body(" red\n")) == "red"


def test_the_tokens_are_those_that_the_server_counted() -> None:
    """0 where its answer has no usable number."""
    assert total_tokens({"usage": {"total_tokens": 7}}) == 7
    uncounted: list[object] = [None, [], {"total_tokens": "7"}, {"total_tokens": -7}, {"total_tokens": 10**400}]
    assert [total_tokens({"usage": usage}) for usage in uncounted] == [0] * len(uncounted)


@pytest.mark.parametrize(
    "content",
    [
        '{"colour": "red"}',
        ' \n```json\n{"colour": "red"}\n``` ',
        '<think>Which?\nRed.</think>\n{"colour": "red"}',
        [{"type": "text", "text": '{"colour": '}, {"type": "text", "text": '"red"}'}, "odd"],
    ],
    ids=["plain", "fenced", "after thoughts", "in parts"],
)
def test_json_is_found_where_models_put_it(content: object) -> None:
    """In a fence, after thoughts, and in several parts."""
    assert COLOUR.read(read(body(content))) == {"colour": "red"}


def test_half_a_surrogate_pair_is_replaced() -> None:
    """An answer in words can always be stored."""
    assert read(body("a\ud800b")) == "a?b"


@pytest.mark.parametrize("cut", [b"", b" ", b'{"choices": [{"mess', b'{"a":' * 100_000])
def test_a_body_that_ends_early_can_be_requested_again(cut: bytes) -> None:
    """It was cut on the way."""
    with pytest.raises(TryAgainError, match="host:1 was cut short"):
        read(cut)


@pytest.mark.parametrize(
    ("unusable", "reason"),
    [
        (body("The colour is red."), "not JSON"),
        (body('{"colour": '), "not JSON"),
        (body('{"colour": NaN}'), "not JSON"),
        (body('{"colour": "\\ud800"}'), "not JSON"),
        (body("[" * 200_000), "not JSON"),
        (body("{}"), "does not fit the schema at $"),
        (body('{"colour": 3}'), "does not fit the schema at $.colour"),
        (body('{"colour": "red", "and": "more"}'), "does not fit"),
        (body(None), "empty answer"),
        (body(7), "empty answer"),
        (body("<think>red, or blue?</think>"), "empty answer"),
        (body(None, refusal=f"I \x1b[2Jwill not\nsay {KEY}"), "refused to answer: I will not say [key]"),
        (body('{"colour": "r', finish_reason="length"), "cut at its greatest length"),
        (body("", finish_reason="content_filter"), "filtered"),
        (b'{"choices": []}', "no choice"),
        (b'{"choices": [7]}', "no choice"),
        (b'{"choices": [{"message": "red"}]}', "no choice"),
        (
            json.dumps({"error": {"message": f"limited for\n{KEY}"}}).encode(),
            "has no choices: limited for [key]",
        ),
        (b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"choices": [], "choices": [{"message": {"content": "red"}}]}', "the member 'choices' occurs twice"),
        (body('{"colour": "red", "colour": "blue"}'), "not JSON"),
        (body('Here: {"colour": "red", "colour": {"colour": "blue"}}'), "not JSON"),
        (b"[]", "no choice"),
        (b"<html>Welcome</html>", "RETRIEVAL_LLM_BASE_URL"),
        (b"\xff\xfe", "RETRIEVAL_LLM_BASE_URL"),
    ],
)
def test_an_incomplete_answer_is_refused(unusable: bytes, reason: str) -> None:
    """In one line that says why, without the key."""
    with pytest.raises(LLMRejectedError) as caught:
        COLOUR.read(read(unusable))
    assert reason in str(caught.value)
    assert KEY not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": ""}, "RETRIEVAL_LLM_MODEL"),
        ({"model": "x\ny"}, "RETRIEVAL_LLM_MODEL"),
        ({"model": 5}, "RETRIEVAL_LLM_MODEL"),
        ({"base_url": "http://[::1"}, "RETRIEVAL_LLM_BASE_URL"),
        ({"base_url": 5}, "RETRIEVAL_LLM_BASE_URL"),
        ({"base_url": "http://host:80a/v1"}, "RETRIEVAL_LLM_BASE_URL"),
        ({"base_url": "http://host:99999/v1"}, "RETRIEVAL_LLM_BASE_URL"),
        ({"base_url": "http://host/v1\n"}, "RETRIEVAL_LLM_BASE_URL"),
        ({"base_url": "https://"}, "RETRIEVAL_LLM_BASE_URL"),
    ],
)
def test_unusable_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    """The message names what to change and never holds the key."""
    usual: dict[str, Any] = {"model": "small", "api_key": "sk-secret"}
    with pytest.raises(ConfigurationError, match=message) as caught:
        OpenAILLM(**{**usual, **changes})
    assert "sk-secret" not in str(caught.value)
