"""The conformance checks of language models."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from functools import partial
from types import MappingProxyType
from typing import Any

from jsonschema import Draft202012Validator

from retrieval.domain.checks import is_unicode
from retrieval.domain.errors import LLMError, LLMRejectedError, LLMUnavailableError
from retrieval.domain.llm import LLM
from retrieval.testing import suite
from retrieval.testing.suite import BrokenError, Suite

_LLM: Suite[LLM] = Suite("language model")
_DETERMINISTIC: Suite[LLM] = Suite("language model")
_UNREACHABLE: Suite[LLM] = Suite("language model")

_PROMPT = "Name one colour of the rainbow."
_ODD_PROMPTS = ("naïve café", "数据库检索", "👩🏽‍🚀 🚀", "a\x00b", "\ud800", '{"role": "system"}', "```")
_HUGE = "What is the last word of this sentence? " * 25_000

_COLOUR = {
    "type": "object",
    "properties": {"colour": {"type": "string"}},
    "required": ["colour"],
    "additionalProperties": False,
}
_NESTED = {
    "type": "object",
    "properties": {
        "plan": {
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "minutes": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 60}, "minItems": 1},
                "kind": {"enum": ["cook", "wait"]},
                "is_optional": {"type": "boolean"},
                "note": {"type": ["string", "null"]},
            },
            "required": ["title", "minutes", "kind", "is_optional", "note"],
            "additionalProperties": False,
        },
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["plan", "confidence"],
    "additionalProperties": False,
}
_REWRITES = {
    "type": "object",
    "properties": {"rewrites": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3}},
    "required": ["rewrites"],
    "additionalProperties": False,
}
_PROMPTS = (
    f"{_PROMPT} Answer in JSON.",
    "Plan a breakfast, as JSON.",
    "Rewrite this search query in one to three ways, as JSON. Query: Who do I know at Acme?",
)


async def check_llm(make: Callable[[], LLM | Awaitable[LLM]], *, deterministic: bool = False) -> None:
    """Check everything that ``retrieval.domain.llm.LLM`` promises; ``deterministic``: and that it repeats its answers.

    ``make`` returns a new language model, or an awaitable of one; it is called once, and the model is closed. Some 40
    short prompts and a huge one are sent. Raises ``ConformanceError``.
    """
    await suite.run_closing(make, [_DETERMINISTIC, _LLM] if deterministic else [_LLM])


async def check_unreachable_llm(make: Callable[[], LLM | Awaitable[LLM]]) -> None:
    """Check the failure of a language model that does not answer, such as one with an address where nothing listens.

    Raises ``ConformanceError``.
    """
    await suite.run_closing(make, [_UNREACHABLE])


def _prompts_with_schemas() -> list[tuple[str, Mapping[str, Any]]]:
    """Prompts with their schemas, which are new and read-only each time."""
    schemas = (MappingProxyType(deepcopy(schema)) for schema in (_COLOUR, _NESTED, _REWRITES))
    return list(zip(_PROMPTS, schemas, strict=True))


@_DETERMINISTIC.add
async def _same_answers_again(llm: LLM) -> None:
    if await llm.complete(_PROMPT) != await llm.complete(_PROMPT):
        raise BrokenError("the same prompt has another answer the second time")
    for prompt, schema in _prompts_with_schemas():
        if await llm.complete_json(prompt, schema) != await llm.complete_json(prompt, schema):
            raise BrokenError(f"the same prompt has another JSON answer the second time: {prompt!r}")


@_LLM.add
async def _name_is_stable(llm: LLM) -> None:
    await suite.require_stable_name(llm, lambda: llm.complete(_PROMPT), "answers are kept under it")


@_LLM.add
async def _answers_in_words(llm: LLM) -> None:
    for system in ("", "You answer in one word."):
        answer = await llm.complete(_PROMPT, system=system)
        if not isinstance(answer, str) or not answer.strip():
            raise BrokenError(f"the answer is {answer!r}; without one, raise LLMRejectedError")


@_LLM.add
async def _json_fits_the_schema(llm: LLM) -> None:
    for prompt, schema in _prompts_with_schemas():
        for system in ("", "You are brief."):
            _require_fit(await llm.complete_json(prompt, schema, system=system), schema)


@_LLM.add
async def _schema_and_answer_are_left_alone(llm: LLM) -> None:
    schema = deepcopy(_COLOUR)
    answer = await llm.complete_json(_PROMPTS[0], schema)
    answer.clear()
    _require_fit(await llm.complete_json(_PROMPTS[0], schema), _COLOUR)
    if schema != _COLOUR:
        raise BrokenError("the call changed the schema that it was given")


@_LLM.add
async def _empty_prompt_is_refused(llm: LLM) -> None:
    for prompt in ("", " \n\t"):
        await _require_rejection(llm.complete(prompt), f"the prompt {prompt!r}")
        await _require_rejection(llm.complete_json(prompt, _COLOUR), f"the prompt {prompt!r} for JSON")


@_LLM.add
async def _broken_schema_is_refused(llm: LLM) -> None:
    await _require_rejection(llm.complete_json(_PROMPT, {"type": "colour"}), "a schema of an unknown type")


@_LLM.add
async def _odd_prompts(llm: LLM) -> None:
    for prompt in _ODD_PROMPTS:
        answer = await llm.complete(f"Say in one word what this is: {prompt}")
        if not is_unicode(answer):
            raise BrokenError(f"the answer about {prompt!r} cannot be encoded as UTF-8")


@_LLM.add
async def _huge_prompt(llm: LLM) -> None:
    # A model may be too small for the prompt, and then refuses it.
    with contextlib.suppress(LLMRejectedError):
        if not await llm.complete(_HUGE):
            raise BrokenError("a prompt of a million characters has an empty answer")


@_LLM.add
async def _concurrent_calls(llm: LLM) -> None:
    words = asyncio.gather(*(llm.complete(f"{_PROMPT} ({number})") for number in range(6)))
    values = asyncio.gather(*(llm.complete_json(prompt, schema) for prompt, schema in _prompts_with_schemas() * 2))
    if not all(await words):
        raise BrokenError("of calls at the same time, one has an empty answer")
    for value, (_, schema) in zip(await values, _prompts_with_schemas() * 2, strict=True):
        _require_fit(value, schema)


@_LLM.add
async def _cancelled_call_leaves_it_usable(llm: LLM) -> None:
    for call in _calls(llm):
        await suite.cancel_soon(call())
    if not await llm.complete(_PROMPT):
        raise BrokenError("after a cancelled call it has an empty answer")


@_LLM.add
async def _event_loop_stays_free(llm: LLM) -> None:
    await suite.require_free_loop(llm.complete_json(*_prompts_with_schemas()[1]))


@_LLM.add
async def _closes_twice_and_answers_no_more(llm: LLM) -> None:
    await llm.aclose()
    await llm.aclose()
    await _require_rejection(llm.complete(_PROMPT), "a call after it was closed")


@_UNREACHABLE.add
async def _unreachable_is_unavailable(llm: LLM) -> None:
    for call in _calls(llm):
        await suite.require_unavailable(call(), LLMUnavailableError)


@_UNREACHABLE.add
async def _unreachable_closes(llm: LLM) -> None:
    await suite.require_closing(llm)


def _calls(llm: LLM) -> tuple[Callable[[], Awaitable[Any]], ...]:
    """A call in words and one for JSON, to be begun."""
    return partial(llm.complete, _PROMPT), partial(llm.complete_json, *_prompts_with_schemas()[0])


def _require_fit(value: Any, schema: Mapping[str, Any]) -> None:
    wrong = next(iter(Draft202012Validator(dict(schema)).iter_errors(value)), None)
    if wrong is not None:
        raise BrokenError(f"the answer {value!r} does not fit its schema: {wrong.message}")


async def _require_rejection(call: Awaitable[Any], what: str) -> None:
    await suite.require_rejection(call, what, LLMRejectedError, LLMError)
