"""The candidates of a recorded search, with what each leg and each model thought of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from retrieval.domain.exploration import Exploration
from retrieval.domain.learned import Combination

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
    origin: str = ""
    """What put the answer together, where that was an application; empty: a search."""
    seed: int
    """What chance went by."""
    item_ids: Sequence[str]
    scores: Mapping[str, Optional]
    """The legs' own scores; None for what the leg did not return."""
    ranks: Mapping[str, Sequence[int | None]] = field(default_factory=dict)
    """The candidates' ranks in the legs, from 1."""
    weights: Mapping[str, float] | None = None
    """Those of the legs in the profile that answered; None: not known."""
    bests: Mapping[str, float] = field(default_factory=dict)
    """By leg, the score that a weighted sum takes as 1."""
    learned: Optional = ()
    """The learned rewards; empty: nothing learned counted."""
    effective_sample_size: Optional = ()
    """Events that what was learned is worth."""
    logit_mean: Optional = ()
    """The learned rewards on the logit scale."""
    cosine: Optional = ()
    """Of the query and those that each was rewarded for."""
    model_version: int = 0
    """0: nothing learned counted."""
    combination: Combination | None = None
    """How what was learned was combined with relevance; None: not known."""
    eligible: Optional = ()
    """1: Thompson slots might pick it; empty: nobody looked."""
    exploration: Exploration | None = None
    """By which numbers an item was eligible; None: not known."""
    uses: Optional = ()
    raw_successes: Optional = ()
    propensity: Optional = ()
    """How probable it was that each was shown; empty: what was shown was certain, all else impossible."""
    shown: Mapping[str, float] = field(default_factory=dict)
    """The propensity of each item that was shown."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """What each item that was shown earned; one that nobody rated is missing."""


def columns_of(signals: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a pool, by the names of their fields, from the ``pool_signals`` of a record."""
    names = ("learned", "effective_sample_size", "logit_mean", "cosine", "eligible", "uses", "raw_successes")
    return {
        "scores": signals.get("legs", {}),
        "ranks": signals.get("ranks", {}),
        "bests": signals.get("bests", {}),
        "propensity": signals.get("propensity", ()),
        **{name: signals.get(name, ()) for name in names},
    }
