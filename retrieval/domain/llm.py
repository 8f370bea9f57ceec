"""The protocol of language models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


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
