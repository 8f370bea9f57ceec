"""The protocol of language models, data in their prompts, and the schemas and texts of their answers."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Protocol, cast

from retrieval.domain.checks import text_fault, written
from retrieval.domain.errors import InvalidRequestError

_WORD = re.compile(r"[^\W_]")
_UNKNOWN = frozenset({"Co", "Cn"})
"""The Unicode categories of characters without a generally known meaning: private use and unassigned."""


class LLM(Protocol):
    """A language model. Every call raises ``LLMUnavailableError`` or ``LLMRejectedError`` where it gives no answer."""

    @property
    def name(self) -> str:
        """Provider and model, such as ``openai/gpt-4o-mini``; answers are cached under this name."""

    async def complete(self, prompt: str, *, system: str = "") -> str:
        """The answer in words. ``system``: the model's role and rules, apart from the question."""

    async def complete_json(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> Any:
        """An answer that fits the JSON schema, parsed and checked against it."""

    async def aclose(self) -> None:
        """Close its connections."""


def is_llm(value: object) -> bool:
    """True if the object is a language model: it has a name, and answers in JSON."""
    return hasattr(value, "name") and callable(getattr(value, "complete_json", None))


def checked_llm(value: object) -> LLM | None:
    """The language model, or None. Raises ``InvalidRequestError`` for anything else."""
    if value is not None and not is_llm(value):
        raise InvalidRequestError(f"llm is {written(value)}; give a language model, such as platform.llm, or None")
    return cast("LLM | None", value)


SECONDS_MAX = 86_400.0
"""The longest time that a caller waits for a language model."""

NAME_LENGTH, ERROR_LENGTH, NOTE_LENGTH = 80, 200, 1000
"""The most characters of a model's name, of an error's text, and of a note."""


def printable_line(text: str, most: int = NOTE_LENGTH) -> str:
    """The text on one line, without unprintable characters, and shortened."""
    # Check only the part that can be kept.
    printable = "".join(character if character.isprintable() else " " for character in text[: 4 * most])
    return " ".join(printable.split())[:most].rstrip()


def plain_error(error: BaseException) -> str:
    """The error's message, or the name of its type if the message is empty or cannot be made."""
    try:
        message = printable_line(str(error))
    except Exception:  # noqa: BLE001 - another library's __str__
        message = ""
    return message or type(error).__name__


def model_name(model: object) -> str:
    """A model's name, or its class's name if the model has no printable name."""
    name = printable_line(str(getattr(model, "name", "")), NAME_LENGTH)
    return name or printable_line(type(model).__name__, NAME_LENGTH)


def prompt_data(value: object) -> str:
    """The value as JSON for a prompt, without a character that could end the tags around it."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c").replace(">", "\\u003e")


TEXT_SCHEMA: Mapping[str, Any] = {"type": "string"}


def list_schema(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of a list of such entries."""
    return {"type": "array", "items": entry}


def object_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with all of these properties, and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def is_usable_text(text: str) -> bool:
    """True if a text of an answer has a word, and only characters that can be stored and have a known meaning."""
    if not _WORD.search(text) or text_fault(text):
        return False
    return not any(unicodedata.category(character) in _UNKNOWN for character in text)
