"""Every policy keeps the contract of the role."""

from __future__ import annotations

import pytest

from retrieval.domain.search.profile_parts import Exploration, PolicyName, PosteriorKind
from retrieval.learning.slate import policy_for
from retrieval.testing import check_policy

EXPLORATIONS = [
    Exploration(),
    Exploration(swaps=0.4),
    Exploration(policy=PolicyName.UNCERTAINTY_BONUS, swaps=1.0),
    Exploration(policy=PolicyName.UNCERTAINTY_BONUS, rate=0.0, floor=1.0, most_eligible=3),
    Exploration(policy=PolicyName.THOMPSON_SLOTS),
    Exploration(policy=PolicyName.THOMPSON_SLOTS, slots=2, swaps=0.4),
    Exploration(policy=PolicyName.THOMPSON_SLOTS, slots=2, posterior=PosteriorKind.BETA, floor=0.2, most_eligible=4),
]


@pytest.mark.parametrize("exploration", EXPLORATIONS, ids=repr)
async def test_a_policy_conforms(exploration: Exploration) -> None:
    """The suite of ``retrieval.testing`` passes."""
    await check_policy(lambda: policy_for(exploration))


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
