"""The conformance checks of exploration policies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import numpy as np

from retrieval.domain.learning.arm import Arm
from retrieval.learning.slate import Policy, Ranked
from retrieval.testing.suite import BrokenError, Suite, make_subject

_POLICY: Suite[Policy] = Suite("policy")

_SHAPES = ((0, 5), (1, 1), (1, 5), (4, 0), (4, 1), (4, 4), (9, 2), (9, 5), (40, 10))
"""Numbers of candidates and of places."""

_DRAWINGS = 4000


async def check_policy(make: Callable[[], Policy | Awaitable[Policy]]) -> None:
    """Check everything that ``retrieval.learning.slate.Policy`` promises.

    ``make`` returns a policy, or an awaitable of one; it is called once. Some 4,000 slates are drawn, with fixed seeds.
    Raises ``ConformanceError``.
    """
    await _POLICY.run(await make_subject(make))


@_POLICY.add
async def _says_what_it_is(policy: Policy) -> None:
    name, _, version = policy.recorded_as.partition("+")[0].rpartition("/")
    if not name == policy.name != "":
        raise BrokenError(f"it is recorded as {policy.recorded_as!r}, not by its name")
    if not version.isdigit() or int(version) < 1:
        raise BrokenError(f"its version is {version!r}, not 1 or more")


@_POLICY.add
async def _every_place_is_taken_once(policy: Policy) -> None:
    for candidates, limit in _SHAPES:
        picked, slots = policy.pull(_candidates(candidates), limit, np.random.default_rng(1)).drawn
        places = min(candidates, limit)
        if not len(picked) == len(slots) == places == len(set(picked)) or not set(picked) <= set(range(candidates)):
            raise BrokenError(f"for {places} places of {candidates} candidates it picked {picked}")


@_POLICY.add
async def _probabilities_add_up(policy: Policy) -> None:
    for candidates, limit in _SHAPES:
        plan = policy.planned(_candidates(candidates), limit, np.random.default_rng(2))
        propensities, chances, places = plan.propensities, plan.chances, min(candidates, limit)
        if propensities.shape != (candidates,) or chances.shape != (candidates, places):
            raise BrokenError(
                f"{candidates} candidates, {places} places: shapes {propensities.shape} and {chances.shape}"
            )
        if not ((chances >= 0) & (chances <= 1)).all() or not (propensities <= 1).all():
            raise BrokenError("a probability lies outside 0 to 1")
        if not np.allclose(chances.sum(axis=0), 1, atol=1e-9) or not np.allclose(chances.sum(axis=1), propensities):
            raise BrokenError(
                "the chances of a place do not add up to 1, or those of a candidate not to its propensity"
            )


@_POLICY.add
async def _what_is_shown_was_possible(policy: Policy) -> None:
    for seed, (candidates, limit) in enumerate(_SHAPES * 10):
        pull = policy.pull(_candidates(candidates), limit, np.random.default_rng(seed))
        shown = pull.propensities[list(pull.drawn.picked)]
        if not ((pull.rank_propensities > 0) & (pull.rank_propensities <= shown)).all():
            raise BrokenError(f"it showed with {shown} at places with {pull.rank_propensities}")


@_POLICY.add
async def _probabilities_are_known_before(policy: Policy) -> None:
    for candidates, limit in _SHAPES:
        plan = policy.planned(_candidates(candidates), limit, np.random.default_rng(3))
        pull = policy.pull(_candidates(candidates), limit, np.random.default_rng(3))
        again = policy.pull(_candidates(candidates), limit, np.random.default_rng(3))
        if pull.drawn != again.drawn:
            raise BrokenError("the same seed gives another slate the second time")
        if not np.array_equal(plan.propensities, pull.propensities):
            raise BrokenError("planned with the same seed, a slate has other propensities than drawn")


@_POLICY.add
async def _draws_as_often_as_it_says(policy: Policy) -> None:
    rng = np.random.default_rng(4)
    plan = policy.planned(_candidates(9), 5, rng)
    counts = np.zeros_like(plan.chances)
    for _ in range(_DRAWINGS):
        counts[list(plan.draw(rng).picked), range(5)] += 1
    # Five standard deviations, for some forty numbers: one in 40,000 correct policies would fail by chance.
    allowed = 5 * np.sqrt(_DRAWINGS * plan.chances * (1 - plan.chances)) + 1e-6 * _DRAWINGS
    off = np.abs(counts - _DRAWINGS * plan.chances) - allowed
    candidate, place = np.unravel_index(off.argmax(), off.shape)
    if not (off <= 0).all():
        raise BrokenError(
            f"candidate {candidate} stood at place {place} in {counts[candidate, place]:.0f} of {_DRAWINGS} "
            f"slates; its chance is {plan.chances[candidate, place]:.4f}"
        )


def _candidates(count: int) -> list[Ranked]:
    """Candidates of every kind: used and new, with a learned reward and without."""
    return [
        Ranked(
            item_id=f"item {index}",
            score=1 - index / (count + 1),
            eligible=index % 3 != 1,
            arm=Arm(uses=index % 5, raw_successes=index % 5 // 2),
            reward_mean=0.4 + 0.1 * (index % 4) if index % 2 else None,
            effective_sample_size=15.0,
            uncertainty=0.1 * (index % 6),
        )
        for index in range(count)
    ]
