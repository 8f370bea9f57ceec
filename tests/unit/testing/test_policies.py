"""The conformance suite of policies detects faults."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from retrieval.learning.arm_table import Floats
from retrieval.learning.slate import Drawn, Off, Policy, Ranked, SlatePlan, ThompsonSlots
from retrieval.testing import ConformanceError, check_policy


async def test_a_good_policy_passes_however_it_is_made() -> None:
    """Made directly or awaited."""

    async def later() -> Off:
        return Off()

    await check_policy(Off)
    await check_policy(later)


class Nameless(Off):
    """Recorded as nothing."""

    name = ""


class Short(Off):
    """Leaves a place empty."""

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> SlatePlan:
        """Plan with the fault."""
        return super().plan(candidates, limit - 1, rng)


class Forgetful(ThompsonSlots):
    """A policy that draws the posterior again for its propensities."""

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> SlatePlan:
        """Plan with the fault: only the kind of generator is taken from the one passed in."""
        return super().plan(candidates, limit, np.random.Generator(type(rng.bit_generator)()))


class Oversure(SlatePlan):
    """Promises 1 for everybody."""

    @property
    def propensities(self) -> Floats:
        """The fault."""
        return np.ones(self.size)


class Promising(Off):
    """A policy whose propensities do not add up."""

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> SlatePlan:
        """Plan with the fault."""
        plan = super().plan(candidates, limit, rng)
        return Oversure(plan.size, plan.settled)


class Biased(SlatePlan):
    """Draws the first of its lottery whenever it can choose."""

    def draw(self, rng: np.random.Generator) -> Drawn:
        """The fault."""
        if self.lottery is not None and rng.random() < 0.1:
            return Drawn((*self.settled, self.pool[0]), super().draw(rng).slots)
        return super().draw(rng)


class Lopsided(ThompsonSlots):
    """Draws other than it says."""

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> SlatePlan:
        """Plan with the fault."""
        plan = super().plan(candidates, limit, rng)
        return Biased(plan.size, plan.settled, plan.pool, plan.lottery)


class Denying(SlatePlan):
    """A policy whose propensities swap the first two places."""

    @property
    def chances(self) -> Floats:
        """The fault."""
        chances = super().chances
        chances[:, :2] = chances[:, 1::-1]
        return chances


class Surprising(Off):
    """Shows items where it gives them no chance."""

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> SlatePlan:
        """Plan with the fault."""
        plan = super().plan(candidates, limit, rng)
        return Denying(plan.size, plan.settled) if len(plan.settled) > 1 else plan


@pytest.mark.parametrize(
    ("policy", "check"),
    [
        (Nameless(), "says what it is"),
        (Short(), "every place is taken once"),
        (Promising(), "probabilities add up"),
        (Surprising(), "what is shown was possible"),
        (Forgetful(), "probabilities are known before"),
        (Lopsided(), "draws as often as it says"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_fault_is_found_by_its_check(policy: Policy, check: str) -> None:
    """The error names it."""
    with pytest.raises(ConformanceError) as caught:
        await check_policy(lambda: policy)

    assert (caught.value.role, caught.value.check) == ("policy", check)
