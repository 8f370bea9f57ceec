"""Checks of prompts, and the schema of a JSON answer."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from jsonschema.exceptions import SchemaError, best_match
from referencing.exceptions import Unresolvable

from retrieval.domain.checks import DECODER, JSONSyntaxError, encodable, json_of, shown_line
from retrieval.domain.errors import LLMRejectedError
from retrieval.domain.json_schema import validator_of


def checked_prompt(prompt: str) -> str:
    """The prompt, encodable as UTF-8: half a surrogate pair becomes a question mark.

    Raises ``LLMRejectedError`` for anything but a text that is not blank.
    """
    if not isinstance(prompt, str) or not prompt.strip():
        raise LLMRejectedError("the prompt is empty; write one")
    return encodable(prompt)


def messages_of(prompt: str, system: str) -> list[dict[str, str]]:
    """The messages of a chat; an empty ``system`` is left out. Raises ``LLMRejectedError`` for an empty prompt."""
    message = {"role": "user", "content": checked_prompt(prompt)}
    if not system.strip():
        return [message]
    return [{"role": "system", "content": encodable(system)}, message]


_FENCED = re.compile(r"\A```\w*[ \t]*\n(.*?)\n?```\Z", re.DOTALL)
_BEGINNING = re.compile(r"[{\[]")
_TRIES = 20
_NESTED = ("properties", "$defs", "definitions")


class JSONShape:
    """A JSON schema (draft 2020-12 unless it names another). References to other documents are not followed."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises ``LLMRejectedError`` for a schema that is not valid: no answer can fit it."""
        try:
            text = json.dumps(dict(schema))
            self.schema: dict[str, Any] = json.loads(text)
            self._validator = validator_of(text)
        except (SchemaError, TypeError, ValueError, RecursionError) as wrong:
            reason = wrong.message if isinstance(wrong, SchemaError) else str(wrong)
            raise LLMRejectedError(f"the schema is not a JSON schema: {shown_line(reason, 200)}; correct it") from None

    @property
    def instructions(self) -> str:
        """The instructions to the model, for servers that cannot enforce a schema."""
        return f"Answer with JSON alone, which fits this JSON schema: {json.dumps(self.schema)}"

    @property
    def is_object(self) -> bool:
        """Whether the answer is an object, the only type that OpenAI's structured output supports."""
        return self.schema.get("type") == "object"

    @property
    def is_strict(self) -> bool:
        """Whether every object of it has all its properties required and allows no others.

        OpenAI's structured output requires that with ``strict``.
        """
        return _is_strict(self.schema)

    def read(self, text: str) -> Any:
        """The answer, parsed and checked; in an answer with other words, the first object or list.

        Raises ``LLMRejectedError`` for an answer that is not JSON or does not fit.
        """
        try:
            value = _parse(text)
            # Characters that UTF-8 cannot hold can be neither stored nor sent.
            json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise LLMRejectedError("the model's answer is not JSON; ask again, or use another model") from None
        return self.checked(value)

    def checked(self, value: Any) -> Any:
        """The value itself. Raises ``LLMRejectedError``, naming the place, if it does not fit."""
        try:
            wrong = best_match(self._validator.iter_errors(value))
        except (Unresolvable, RecursionError) as unusable:
            reason = shown_line(str(unusable), 200)
            raise LLMRejectedError(f"the schema cannot be followed: {reason}; correct it") from None
        if wrong is not None:
            raise LLMRejectedError(
                f"the model's answer does not fit the schema at {wrong.json_path}: {shown_line(wrong.message, 200)}; "
                "ask again, or use another model"
            )
        return value


def _parse(text: str) -> Any:
    """Parse the text as JSON, or the first object or list in it. Raises ``ValueError`` if there is none."""
    text = text.strip().removeprefix("\ufeff").strip()
    fence = _FENCED.match(text)
    try:
        return json_of(fence[1] if fence else text)
    except JSONSyntaxError:
        # No part of a truncated JSON answer is the answer.
        tries = 1 if text[:1] in {"{", "["} else _TRIES
        for beginning in islice(_BEGINNING.finditer(text), tries):
            with contextlib.suppress(json.JSONDecodeError, JSONSyntaxError):
                return DECODER.raw_decode(text, beginning.start())[0]
        raise


def _is_strict(schema: object) -> bool:
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            return False
    # The values of these are schemas by name; a property may be called "type".
    parts = [list(value.values()) if name in _NESTED else value for name, value in schema.items()]
    return all(map(_is_strict, parts))
