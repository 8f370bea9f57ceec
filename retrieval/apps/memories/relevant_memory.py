"""A memory as it was retrieved: what it says, its score, and how it got it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from retrieval.domain.hit import Explanation, Hit
from retrieval.domain.memory import Memory
from retrieval.domain.signals.catalogue import SIGNALS


@dataclass(frozen=True, slots=True, kw_only=True)
class RelevantMemory(Memory):
    """One memory of an answer."""

    computed_relevance_score: float
    """The sum of the signals' contributions: 0 to 1 where the weights sum to 1. Higher is better."""
    rank: int
    """From 1."""
    explanation: Explanation
    """The signals with their values and weights, and the legs that brought it."""
    retrieval_id: UUID | None = None
    """Under which the answer is recorded, for feedback; None: it is not."""

    @property
    def signals(self) -> dict[str, float]:
        """The value of each signal that counts, by its name, 0 to 1."""
        return {part.leg: part.raw_score for part in self.explanation.contributions if part.leg in SIGNALS}

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        given = {part.name: _plain(getattr(self, part.name)) for part in fields(self)}
        return {**given, "explanation": self.explanation.as_dict()}


def relevant(memory: Memory, hit: Hit, retrieval_id: UUID | None) -> RelevantMemory:
    """The memory with how it was found."""
    return RelevantMemory(
        **{part.name: getattr(memory, part.name) for part in fields(memory)},
        computed_relevance_score=hit.score,
        rank=hit.rank,
        explanation=hit.explanation,
        retrieval_id=retrieval_id,
    )


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return list(value) if isinstance(value, tuple) else value
