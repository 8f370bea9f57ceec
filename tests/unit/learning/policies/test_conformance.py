"""Every policy keeps the contract of the role."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.domain.search.profile_parts import Exploration, PolicyName, PosteriorKind
from retrieval.learning.slate import AdjacentSwaps, Off, Policy, ThompsonSlots, UncertaintyBonus, policy_for
from retrieval.testing import check_policy

POLICIES = [
    Off(),
    UncertaintyBonus(),
    UncertaintyBonus(rate=0.0, floor=1.0, most_eligible=3),
    ThompsonSlots(rows=64),
    ThompsonSlots(slots=2, posterior=PosteriorKind.BETA, floor=0.2, most_eligible=4, rows=16),
    AdjacentSwaps(Off(), 0.4),
    AdjacentSwaps(ThompsonSlots(slots=2, rows=16), 0.4),
    AdjacentSwaps(UncertaintyBonus(), 1.0),
]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
async def test_a_policy_conforms(policy: Policy) -> None:
    """The suite of ``retrieval.testing`` passes."""
    await check_policy(lambda: policy)


def test_a_profile_names_its_policy_with_all_its_numbers() -> None:
    """None is lost on the way."""
    numbers: dict[str, Any] = {"rate": 0.3, "slots": 2, "posterior": "beta", "floor": 0.25, "most_eligible": 17}

    assert policy_for(Exploration(policy=PolicyName.UNCERTAINTY_BONUS, **numbers)) == UncertaintyBonus(0.3, 0.25, 17)
    assert policy_for(Exploration(policy=PolicyName.THOMPSON_SLOTS, **numbers)) == ThompsonSlots(
        2, PosteriorKind.BETA, 0.25, 17
    )


def test_swaps_go_around_the_policy() -> None:
    """Around any of them, where the profile asks for them."""
    policy = policy_for(Exploration(policy=PolicyName.UNCERTAINTY_BONUS, swaps=0.02))

    assert policy == AdjacentSwaps(UncertaintyBonus(), 0.02)
    assert isinstance(policy_for(Exploration()), Off)


@pytest.mark.parametrize(
    ("exploration", "recorded"),
    [
        (Exploration(), "off/1"),
        (Exploration(policy=PolicyName.UNCERTAINTY_BONUS), "uncertainty_bonus/1"),
        (Exploration(policy=PolicyName.THOMPSON_SLOTS), "thompson_slots/1"),
        (Exploration(policy=PolicyName.THOMPSON_SLOTS, swaps=0.02), "thompson_slots/1+adjacent_swaps/1"),
    ],
)
def test_a_policy_is_recorded_by_name_and_version(exploration: Exploration, recorded: str) -> None:
    """Both, of the policy and of the swaps around it."""
    assert policy_for(exploration).recorded_as == recorded
