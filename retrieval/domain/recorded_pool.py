"""The candidates of a recorded search, with what each leg and each model thought of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

Optional = Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPool:
    """A recorded search, as far as another policy needs it to answer the same. Columns follow ``item_ids``."""

    retrieval_id: UUID
    retrieved_at: datetime
    limit: int
    """Hits that were asked for."""
    profile_version: int
    """0: the call's own."""
    is_grouped: bool
    """Whether only the best of each group was shown."""
    policy: str
    """Name and version of the exploration policy that ran."""
    seed: int
    """What chance went by."""
    item_ids: Sequence[str]
    scores: Mapping[str, Optional]
    """The legs' own scores; None for what the leg did not return."""
    ranks: Mapping[str, Sequence[int | None]] = field(default_factory=dict)
    """The candidates' ranks in the legs, from 1."""
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By leg, the scores that a weighted sum takes as 0 and as 1."""
    learned: Optional = ()
    """The learned rewards; empty: nothing learned counted."""
    learned_sd: Optional = ()
    propensity: Optional = ()
    """How probable it was that each was shown; empty: what was shown was certain, all else impossible."""
    shown: Mapping[str, float] = field(default_factory=dict)
    """The propensity of each item that was shown."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """What each item that was shown earned; one that nobody rated is missing."""
