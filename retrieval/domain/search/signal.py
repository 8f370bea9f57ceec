"""What a signal is, what it knows of a candidate, and what it knows of the question."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, ClassVar

from retrieval.domain.errors import InvalidProfileError, InvalidRequestError
from retrieval.domain.search.profile_parts import check_weight

Entity = tuple[str, str]
"""Its type and its id, such as ``("questions", "q1")``."""


READ = frozenset({"title", "body", "attributes", "tags", "verdicts"})
"""The facts that are read only where a signal needs them: long ones, and those that stand elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a candidate."""

    title: str = ""
    body: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    happened_at: datetime | None = None
    """When it happened, or else when it was stored."""
    cosine: float | None = None
    """Its vector's cosine with the query's, -1 to 1; None: one of the two is missing."""
    base_relevance: float = 1.0
    """As its application set it, 0 to 1."""
    accesses: int = 0
    """How often it was retrieved."""
    entities: frozenset[Entity] = frozenset()
    """What it is linked to."""
    tags: frozenset[str] = frozenset()
    uses: int = 0
    """How many verdicts there are on it, in all contexts."""
    raw_successes: int = 0
    """How many of them are good, 0 to ``uses``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is known of the question."""

    now: datetime
    words: str = ""
    entities: frozenset[Entity] = frozenset()
    """What the question is about."""
    tags: frozenset[str] = frozenset()
    """What it is about, by tag."""
    has_vector: bool = False
    """Whether vectors can be compared with one of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal(ABC):
    """A signal with its weight. Raises ``InvalidProfileError`` for a weight that is negative, NaN or infinite."""

    name: ClassVar[str]
    reads: ClassVar[frozenset[str]] = READ
    """Which of ``READ`` its value is told from: the others are not read for it."""
    weight: float

    def __post_init__(self) -> None:
        check_weight(f"the weight of signal {self.key!r}", self.weight)

    @property
    def key(self) -> str:
        """What a profile and an explanation call it: its name, with what tells it from another of its kind."""
        return self.name

    def compares(self, asked: Question) -> bool:
        """Whether the question gives what the signal compares candidates with; where it does not, all are worth 0."""
        return True

    @abstractmethod
    def value(self, facts: Facts, asked: Question) -> float:
        """0 (speaks against it, or nothing is known) to 1."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: the weight, and the signal's own numbers."""
        return {part.name: _plain(getattr(self, part.name)) for part in fields(self) if part.init}


def check_entity(entity: tuple[object, object]) -> Entity:
    """The entity. Raises ``InvalidRequestError`` for a type or an id that is no text, empty, or holds a NUL byte.

    A type has no colon: ``questions:q1`` is how filters write an entity.
    """
    kind, entity_id = entity
    for part, value in (("type", kind), ("id", entity_id)):
        if not isinstance(value, str) or not value or "\x00" in value or len(value.encode(errors="replace")) > 512:
            raise InvalidRequestError(f"an entity's {part} is a text of 1 to 512 bytes, not {value!r:.80}")
    if ":" in str(kind):
        raise InvalidRequestError(f"an entity's type has no colon: {kind!r:.80}")
    return str(kind), str(entity_id)


def checked_positive(name: str, value: object) -> float:
    """A finite number above 0. Raises ``InvalidProfileError``."""
    number = check_weight(name, value)
    if number == 0:
        raise InvalidProfileError(f"{name} is 0; it must be above 0")
    return number


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value
