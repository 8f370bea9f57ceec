"""An answer as a session got it, read back from its record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from retrieval.domain.slate import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHit:
    """An item that was shown."""

    item_id: str
    rank: int
    """From 1."""
    score: float
    slot: Slot
    propensity: float
    """The probability that it was shown, above 0 and at most 1."""
    rank_propensity: float
    """The probability that it was shown at this rank, above 0 and at most ``propensity``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """A search, or an answer that an application put together itself."""

    retrieval_id: UUID
    retrieved_at: datetime
    origin: str
    """What put it together, as ``Collection.record_answer`` was told; empty: a search."""
    query: str
    hits: tuple[RecordedHit, ...]
    """By rank."""
