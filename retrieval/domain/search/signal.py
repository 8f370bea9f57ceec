"""Signals, and the facts about candidate and question that they are computed from."""

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
    """The facts about a candidate."""

    title: str = ""
    body: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    happened_at: datetime | None = None
    """The time when it happened, or else when it was stored."""
    cosine: float | None = None
    """Its vector's cosine with the query's, -1 to 1; None: one of the two is missing."""
    base_relevance: float = 1.0
    """The relevance that its application set, 0 to 1."""
    accesses: int = 0
    """The number of retrievals."""
    entities: frozenset[Entity] = frozenset()
    """The entities that it is linked to."""
    tags: frozenset[str] = frozenset()
    uses: int = 0
    """The number of verdicts on it, in all contexts."""
    raw_successes: int = 0
    """The number of good verdicts, 0 to ``uses``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The facts about the question."""

    now: datetime
    words: str = ""
    entities: frozenset[Entity] = frozenset()
    """The entities that the question is about."""
    tags: frozenset[str] = frozenset()
    """The tags that the question is about."""
    has_vector: bool = False
    """True if the question has a vector to compare with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal(ABC):
    """A signal with its weight. Raises ``InvalidProfileError`` for a weight that is negative, NaN or infinite."""

    name: ClassVar[str]
    reads: ClassVar[frozenset[str]] = READ
    """The facts of ``READ`` that the value is computed from: no others are read for it."""
    weight: float

    def __post_init__(self) -> None:
        check_weight(f"the weight of signal {self.key!r}", self.weight)

    @property
    def key(self) -> str:
        """The name in profiles and explanations: the signal's name, with what tells it from another of its kind."""
        return self.name

    def compares(self, asked: Question) -> bool:
        """True if the question has what the signal compares candidates with; if not, all values are 0."""
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
