"""Principles as they were found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload
from uuid import UUID

from retrieval.apps.principles.principle import Principle
from retrieval.domain.hit import Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPrinciple:
    """A principle of an answer."""

    principle: Principle
    score: float
    """What it was ranked by: principle score + 0.1 × each matching tag + 2 × similarity. Higher is better."""
    is_exploratory: bool = False
    """Whether it is there to learn about it."""
    propensity: float = 1.0
    """The probability that it was shown, above 0 and at most 1."""
    rank_propensity: float = 1.0
    """The probability that it was shown at this place, above 0 and at most ``propensity``."""
    explanation: Explanation | None = None
    """The signals with their values and weights; None where the answer was not a search's."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        one = self.principle
        return {
            "id": one.id,
            "title": one.title,
            "body": one.body,
            "tags": list(one.tags),
            "status": one.status,
            "score": one.score,
            "use_count": one.use_count,
            "success_rate": one.success_rate,
            "last_used_at": one.last_used_at.isoformat() if one.last_used_at else None,
            "exploring": self.is_exploratory,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPrinciples(Sequence[FoundPrinciple]):
    """An answer: the best first, then those that are explored. Reads like a list of them."""

    found: tuple[FoundPrinciple, ...]
    retrieval_id: UUID | None = None
    """Under which the answer is recorded; None: it is not."""
    notes: tuple[str, ...] = ()
    """What the caller should know: a leg that could not run and why."""

    @overload
    def __getitem__(self, index: int) -> FoundPrinciple: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[FoundPrinciple]: ...
    def __getitem__(self, index: int | slice) -> FoundPrinciple | Sequence[FoundPrinciple]:
        return self.found[index]

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[FoundPrinciple]:
        return iter(self.found)
