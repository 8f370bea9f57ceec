"""The slate: a ranking, an exploration policy and chance become the items that are shown, each with its propensity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from retrieval.domain.records.slate import Placed
from retrieval.domain.search.profile_parts import Exploration
from retrieval.learning.policies.choice import policy_for
from retrieval.learning.ranked import Ranked


def compose(ranked: Sequence[Ranked], limit: int, exploration: Exploration, rng: np.random.Generator) -> list[Placed]:
    """Composes the slate of candidates given best first: ``limit`` of them, or all where there are fewer.

    A candidate that comes twice counts where it comes first. The same generator state gives the same slate with the
    same propensities, and ``slate_probabilities`` gives those of everybody else.
    """
    return drawn_slate(_each_once(ranked), limit, exploration, rng)[0]


def drawn_slate(
    candidates: Sequence[Ranked], limit: int, exploration: Exploration, rng: np.random.Generator
) -> tuple[list[Placed], dict[str, float]]:
    """The slate of candidates none of which comes twice, and the probability of each of them to be in it, by item."""
    pull = policy_for(exploration).pull(candidates, max(limit, 0), rng)
    placed = [
        Placed(candidates[one].item_id, slot, float(pull.propensities[one]), float(stood))
        for one, slot, stood in zip(pull.drawn.picked, pull.drawn.slots, pull.rank_propensities, strict=True)
    ]
    return placed, {
        candidate.item_id: float(chance) for candidate, chance in zip(candidates, pull.propensities, strict=True)
    }


def slate_probabilities(
    ranked: Sequence[Ranked], limit: int, exploration: Exploration, rng: np.random.Generator
) -> dict[str, float]:
    """The probability of every candidate to be in the slate, by item: what ``compose`` gives those that it shows.

    They add up to the number of places. With the generator in another state, Thompson sampling has other posterior
    draws, and probabilities that differ by the chance in these.
    """
    candidates = _each_once(ranked)
    plan = policy_for(exploration).plan(candidates, max(limit, 0), rng)
    return {candidate.item_id: float(chance) for candidate, chance in zip(candidates, plan.propensities, strict=True)}


def _each_once(ranked: Sequence[Ranked]) -> list[Ranked]:
    first: dict[str, Ranked] = {}
    for candidate in ranked:
        first.setdefault(candidate.item_id, candidate)
    return list(first.values())
