"""A metaphor: a framework from another domain that a problem can be thought about in."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.apps.metaphors.operation import Operation
from retrieval.apps.metaphors.texts import checked_numbers, checked_text, checked_texts
from retrieval.domain.errors import InvalidRequestError

STATIC, GENERATED = "static", "generated"
"""Sources: the curated corpus, and a language model. Any other text is an application's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metaphor:
    """A metaphor. Raises ``InvalidRequestError`` for a missing id or name, and what is not of its type."""

    id: str
    """Unique within a corpus, such as ``plumbing``."""
    name: str
    domain: str = ""
    """Where it comes from, such as ``engineering``."""
    description: str = ""
    operations: tuple[Operation, ...] = ()
    examples: tuple[str, ...] = ()
    """Problems that it helped with."""
    concreteness: float | None = None
    """How easily it is pictured, 0 (abstract) to 1 (tangible); None: not said."""
    embedding: tuple[float, ...] | None = None
    """Its vector in the corpus's space; None: it is made of the text. ``add`` stores it, scaled to length 1."""

    def __post_init__(self) -> None:
        checked_text("a metaphor's id", self.id, is_needed=True)
        checked_text("a metaphor's name", self.name, is_needed=True)
        for name in ("domain", "description"):
            checked_text(f"a metaphor's {name}", getattr(self, name))
        operations = tuple(self.operations) if isinstance(self.operations, tuple | list) else (None,)
        if not all(isinstance(one, Operation) for one in operations):
            raise InvalidRequestError(f"the operations of metaphor {self.id!r} are no list of Operation(name=...)")
        object.__setattr__(self, "operations", operations)
        object.__setattr__(self, "examples", checked_texts("a metaphor's examples", self.examples))
        object.__setattr__(self, "embedding", checked_numbers("a metaphor's embedding", self.embedding))
        if self.concreteness is not None:
            _check_share("concreteness", self.concreteness)


def _check_share(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidRequestError(f"{name} is {value!r:.80}; it must be a number from 0 to 1")
