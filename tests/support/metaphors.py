"""A small corpus of metaphors, and language models that suggest more, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retrieval.apps.metaphors import Metaphor, Operation


def metaphor(
    key: str, description: str, *, domain: str = "", operations: int = 2, concreteness: float = 0.5
) -> Metaphor:
    """A metaphor that is found by the words of its description."""
    named = tuple(Operation(name=f"do_{number}", effects=("it changes",)) for number in range(operations))
    return Metaphor(
        id=key, name=key, domain=domain, description=description, operations=named, concreteness=concreteness
    )


CORPUS = [
    metaphor("pipes", "water pressure flows through narrow pipes", domain="plumbing", concreteness=0.9),
    metaphor("river", "water pressure flows down valleys slowly", domain="geology", concreteness=0.8),
    metaphor("market", "prices settle between buyers and sellers", domain="economics", operations=6, concreteness=0.2),
    metaphor("chess", "pieces threaten squares and plans unfold", domain="games", operations=4, concreteness=0.5),
    metaphor("garden", "plants grow where soil is prepared", domain="horticulture", operations=3, concreteness=0.9),
    metaphor("orchestra", "players follow one conductor together", domain="music", operations=5, concreteness=0.6),
]
"""Two of them are about the same."""


def suggestion(name: str, description: str, **changes: Any) -> dict[str, Any]:
    """A model's suggestion of a metaphor."""
    operations = [{"name": name, "description": "d", "effects": ["it changes"]} for name in ("one", "other")]
    usual = {"name": name, "domain": "d", "description": description, "operations": operations, "examples": ["e"]}
    return usual | {"concreteness": 0.5} | changes


class ScriptedLLM:
    """A model with scripted answers."""

    name = "scripted/1"

    def __init__(self, suggestions: Sequence[Mapping[str, Any]] = (), *, error: BaseException | None = None) -> None:
        self.suggestions = suggestions
        self.error = error
        self.prompts: list[str] = []

    async def complete(self, prompt: str, *, system: str = "") -> str:  # noqa: ARG002 - as language models are asked
        """A word."""
        return "yes"

    async def complete_json(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> Any:  # noqa: ARG002
        """The suggestions, or the error."""
        self.prompts.append(prompt)
        if self.error is not None:
            raise self.error
        return {"metaphors": list(self.suggestions)}

    async def aclose(self) -> None:
        """Nothing to let go of."""
