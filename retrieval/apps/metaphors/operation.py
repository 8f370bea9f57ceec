"""Something that can be done within a metaphor."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.apps.metaphors.texts import checked_text, checked_texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation with its effects. Raises ``InvalidRequestError`` for a missing name, or what is no text."""

    name: str
    """What it is called, such as ``add_reservoir``."""
    effects: tuple[str, ...] = ()
    """What it brings about; an operation without effects makes a generated metaphor invalid."""
    description: str = ""

    def __post_init__(self) -> None:
        checked_text("an operation's name", self.name, is_needed=True)
        checked_text("an operation's description", self.description)
        object.__setattr__(self, "effects", checked_texts("the effects of an operation", self.effects))
