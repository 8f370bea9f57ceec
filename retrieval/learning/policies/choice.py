"""Which policy a profile means."""

from __future__ import annotations

from retrieval.domain.exploration import Exploration, PolicyName
from retrieval.learning.policies.adjacent_swaps import AdjacentSwaps
from retrieval.learning.policies.off import Off
from retrieval.learning.policies.policy import Policy
from retrieval.learning.policies.thompson_slots import ThompsonSlots
from retrieval.learning.policies.uncertainty_bonus import UncertaintyBonus


def policy_for(exploration: Exploration) -> Policy:
    """The policy with the profile's numbers, and swaps around it where it asks for them."""
    policy = _named(exploration)
    return AdjacentSwaps(policy, exploration.swaps) if exploration.swaps else policy


def _named(exploration: Exploration) -> Policy:
    match exploration.policy:
        case PolicyName.OFF:
            return Off()
        case PolicyName.UNCERTAINTY_BONUS:
            return UncertaintyBonus.of(exploration)
        case PolicyName.THOMPSON_SLOTS:
            return ThompsonSlots.of(exploration)
