"""A problem that wants a metaphor."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.apps.metaphors.texts import checked_numbers, checked_text
from retrieval.domain.context import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem. Raises ``InvalidRequestError`` for a missing description, or a complexity outside 0 to 1."""

    id: str
    description: str
    domain: str = ""
    """What it is about, such as ``logistics``; empty: not said. Case and blanks around it do not count."""
    complexity: float | None = None
    """0 to 1; None: not said."""
    embedding: tuple[float, ...] | None = None
    """Its vector in the corpus's space; None: it is made from the description."""

    def __post_init__(self) -> None:
        checked_text("a problem's id", self.id, is_needed=True)
        checked_text("a problem's description", self.description, is_needed=True)
        Context(domain=self.domain, complexity=self.complexity)
        object.__setattr__(self, "domain", self.domain.strip().casefold())
        object.__setattr__(self, "embedding", checked_numbers("a problem's embedding", self.embedding))
