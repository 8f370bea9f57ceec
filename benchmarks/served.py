"""Whole slates by the product's own door: how long one takes, and whether many agree with their propensities."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.special import chdtrc

from retrieval.domain.learning.arm import Arm
from retrieval.domain.search.profile_parts import Exploration, PolicyName, PosteriorKind
from retrieval.learning.slate import Ranked, drawn_slate, policy_for

CANDIDATES = 50
PLACES = 10


def candidates(count: int, rng: np.random.Generator) -> list[Ranked]:
    """By falling relevance; two thirds behind the slate are eligible, and something is learned of each."""
    relevance = np.sort(rng.random(count))[::-1]
    return [
        Ranked(
            item_id=f"item {place}",
            score=float(relevance[place]),
            relevance=float(relevance[place]),
            learned_share=0.6,
            eligible=place % 3 != 0,
            arm=Arm(uses=place % 5, raw_successes=place % 5 // 2),
            reward_mean=float(rng.uniform(0.2, 0.6)),
            effective_sample_size=float(rng.uniform(4.0, 40.0)),
            uncertainty=0.15,
        )
        for place in range(count)
    ]


def timings(slates: int, seed: int) -> list[dict[str, Any]]:
    """Milliseconds of a slate with its propensities, the kinds of exploration in turn."""
    pool = candidates(CANDIDATES, np.random.default_rng(seed))
    kinds = {
        f"{slots} slots, {posterior.value}, the best {most}": Exploration(
            policy=PolicyName.THOMPSON_SLOTS, slots=slots, posterior=posterior, most_eligible=most, swaps=0.02
        )
        for posterior in PosteriorKind
        for slots, most in ((1, 30), (2, 30), (2, 300))
    }
    kinds["uncertainty bonus"] = Exploration(policy=PolicyName.UNCERTAINTY_BONUS, swaps=0.02)
    kinds["swaps alone"] = Exploration(swaps=0.02)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    for number in range(slates):
        for name, exploration in kinds.items():
            began = time.process_time(), time.perf_counter()
            drawn_slate(pool, PLACES, exploration, np.random.default_rng(number))
            times[name].append((1000 * (time.process_time() - began[0]), 1000 * (time.perf_counter() - began[1])))
    return [{"exploration": name, **_percentiles(values)} for name, values in times.items()]


def _percentiles(times: list[tuple[float, float]]) -> dict[str, float]:
    """Percentiles of the processor's time, which other work on the machine disturbs less, and of the clock's."""
    (cpu, clock), (cpu_slow, _) = np.percentile(times, [50, 95], axis=0)
    return {
        name: round(float(ms), 2)
        for name, ms in (("CPU p50 ms", cpu), ("CPU p95 ms", cpu_slow), ("clock p50 ms", clock))
    }


def agreement(slates: int, slots: int, seed: int) -> dict[str, Any]:
    """Served slates, each with a seed and a posterior of its own, against the propensities that they report.

    Every slate has other propensities, so what is compared is who was drawn minus how probable that was, summed over
    all slates; the sum's covariance is estimated from the slates themselves.
    """
    pool = candidates(16, np.random.default_rng(seed))
    exploration = Exploration(policy=PolicyName.THOMPSON_SLOTS, slots=slots, swaps=0.02)
    policy = policy_for(exploration)
    surprise, squares, off_sum = np.zeros(len(pool)), np.zeros((len(pool),) * 2), 0.0
    for number in range(slates):
        pull = policy.pull(pool, PLACES, np.random.default_rng([seed, number]))
        off = -pull.propensities
        off[list(pull.drawn.picked)] += 1
        off_sum = max(off_sum, abs(float(pull.propensities.sum()) - PLACES))
        surprise += off
        squares += np.outer(off, off)
    degrees = int(np.linalg.matrix_rank(squares, tol=1e-6 * slates, hermitian=True))
    statistic = float(surprise @ np.linalg.pinv(squares, rcond=1e-6, hermitian=True) @ surprise)
    return {
        "slates": slates,
        "slots": slots,
        "chi-square": round(statistic, 2),
        "degrees of freedom": degrees,
        "p": round(float(chdtrc(degrees, statistic)), 4),
        "greatest error of their sum": off_sum,
    }
