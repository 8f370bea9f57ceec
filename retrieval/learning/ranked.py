"""A candidate as exploration sees it: its place by score, and what is known of its reward."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from retrieval.domain.learning.arm import NO_ARM, Arm
from retrieval.domain.search.profile_parts import Exploration


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A candidate among others, which stand in the order of their scores, the best first."""

    item_id: str
    score: float = 0.0
    """The score that it is ranked by; 0 to 1 where the uncertainty bonus is used, which is added to it."""
    relevance: float = 0.0
    """The part of the score that is not learned, 0 to 1."""
    learned_share: float = 1.0
    """The share of the learned reward in the score, 0 to 1: score = (1 - share) × relevance + share × reward."""
    eligible: bool = False
    """True if Thompson slots may pick it; see ``is_eligible``."""
    arm: Arm = NO_ARM
    """Its raw counts are what the Beta posterior is made of."""
    reward_mean: float | None = None
    """The mean of the learned reward's Beta distribution, 0 to 1; None: only raw counts are known."""
    effective_sample_size: float = 0.0
    """The sum of that distribution's two parameters: above 0 where something is learned."""
    uncertainty: float = 0.0
    """The uncertainty of the learned reward, 0 to 0.5, for the uncertainty bonus; see ``Prediction.uncertainty``."""


def is_eligible(arm: Arm, created_at: datetime | None, now: datetime, exploration: Exploration) -> bool:
    """True if an item was hardly used, or is young: Thompson slots are for such items.

    Uses are raw counts over all contexts: what was learned long ago was learned. An item without a time of storage is
    not young.
    """
    if arm.uses < exploration.fewer_uses_than:
        return True
    return created_at is not None and now - created_at < timedelta(days=exploration.younger_than_days)
