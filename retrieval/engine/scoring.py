"""Relevance and learned reward become one score, in parts that add up. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retrieval.domain.arm import ItemArms
from retrieval.domain.fusion import Fused
from retrieval.domain.hit import Contribution
from retrieval.domain.learned import Combination, Learned
from retrieval.learning.arm_table import Floats
from retrieval.learning.learned_model import LearnedModel
from retrieval.learning.prediction import Prediction
from retrieval.learning.stack import AFFINITY, LEARNED, RELEVANCE, LogitStack, affinity_signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Candidates with what their score is made of; sequences in one order, the most relevant first."""

    ranked: Sequence[Fused]
    relevance: Sequence[float]
    """0 to 1."""
    legs: Mapping[str, Sequence[float]]
    """0 to 1, by leg; none where there is one leg, which relevance tells."""
    arms: Sequence[ItemArms]
    cosines: Sequence[float | None]
    """Of the query and those that the item was rewarded for; None: it never was."""
    buckets: tuple[str, ...]
    """The context buckets of the search."""


def predictions(pool: Pool, model: LearnedModel, combination: Combination) -> list[Prediction]:
    """What each candidate is expected to earn, as the combination needs it."""
    if combination is Combination.SUM:
        return model.reward.predict(pool.buckets, pool.arms, pool.relevance, signals=pool.legs)
    return model.by_item.predict(pool.buckets, pool.arms)


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of a pool, and what each is made of; only what is shown is worth explaining."""

    scores: Sequence[float]
    """In the order of the pool."""
    parts: Callable[[int], tuple[Contribution, ...]]
    """What the score of the candidate at that place of the pool is made of."""

    def order(self, pool: Pool) -> list[int]:
        """The places of the candidates, the best first; equal scores are ordered by item id."""
        places = range(len(self.scores))
        return sorted(places, key=lambda place: (-self.scores[place], pool.ranked[place].item_id))

    def fused(self, pool: Pool, place: int) -> Fused:
        """The candidate at a place, explained."""
        parts = self.parts(place)
        return Fused(pool.ranked[place].item_id, sum(part.value for part in parts), parts)


def combined(pool: Pool, model: LearnedModel, learned: Learned, predicted: Sequence[Prediction]) -> Scored:
    """The scores of the candidates by relevance and learned reward."""
    if learned.combination is Combination.SUM:
        return _summed(pool, learned.share, predicted)
    return _stacked(model.stack, pool_signals(pool, predicted))


def pool_signals(pool: Pool, predicted: Sequence[Prediction]) -> dict[str, Floats]:
    """The stack's signals of the pool, by name."""
    logits = [one.logit_mean for one in predicted]
    return stack_signals(relevance=pool.relevance, legs=pool.legs, logits=logits, cosines=pool.cosines)


def learned_signals(pool: Pool, predicted: Sequence[Prediction]) -> dict[str, dict[str, float | None]]:
    """What was learned of the candidates, by name and item id, as it is recorded."""
    return {
        "learned": {one.item_id: one.mean for one in predicted},
        "effective_sample_size": {one.item_id: one.effective_sample_size for one in predicted},
        "logit_mean": {one.item_id: one.logit_mean for one in predicted},
        "cosine": {one.item_id: cosine for one, cosine in zip(pool.ranked, pool.cosines, strict=True)},
    }


def stack_signals(
    *,
    relevance: Sequence[float],
    legs: Mapping[str, Sequence[float]],
    logits: Sequence[float],
    cosines: Sequence[float | None],
) -> dict[str, Floats]:
    """The signals of the stack by name, each of shape (candidates,)."""
    named = {RELEVANCE: np.array(relevance, dtype=np.float64), LEARNED: np.array(logits, dtype=np.float64)}
    named[AFFINITY] = affinity_signal(cosines)
    return named | {leg: np.array(scores, dtype=np.float64) for leg, scores in legs.items()}


def _summed(pool: Pool, share: float, predicted: Sequence[Prediction]) -> Scored:
    means = np.array([one.mean for one in predicted])
    ranks = _ranks(means)

    def parts(place: int) -> tuple[Contribution, ...]:
        mean = float(means[place])
        learned = Contribution(LEARNED, ranks[place], mean, share, share * mean)
        return (*_scaled(pool.ranked[place], (1 - share) * pool.relevance[place]), learned)

    return Scored(((1 - share) * np.array(pool.relevance) + share * means).tolist(), parts)


def _scaled(one: Fused, total: float) -> tuple[Contribution, ...]:
    """The legs' parts, so that they add up to the total."""
    if one.score > 0:
        return tuple(part._replace(value=part.value / one.score * total) for part in one.contributions)
    return tuple(part._replace(value=total / len(one.contributions)) for part in one.contributions)


def _stacked(stack: LogitStack, signals: Mapping[str, Floats]) -> Scored:
    added = stack.parts(signals)
    ranks = {name: _ranks(values) for name, values in signals.items()}

    def parts(place: int) -> tuple[Contribution, ...]:
        return tuple(
            Contribution(
                name,
                ranks[name][place],
                float(values[place]),
                stack.weights.get(name, 0.0),
                float(added[name][place]),
            )
            for name, values in signals.items()
        )

    return Scored(stack.score(signals).tolist(), parts)


def _ranks(values: Floats) -> list[int]:
    """The rank of each, from 1; equal ones stand in the order of the pool."""
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return ranks.tolist()
