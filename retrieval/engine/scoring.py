"""The scores of candidates by relevance and learned reward, and the expected reward of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter, neg

import numpy as np

from retrieval.domain.checks import is_number, written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.arm import Expectation, ItemArms
from retrieval.domain.search.fusion import Fused, scaled_parts
from retrieval.domain.search.hit import Contribution
from retrieval.domain.search.profile_parts import Combination, Exploration, Learned
from retrieval.learning.arm_table import Floats
from retrieval.learning.learned_model import LearnedModel
from retrieval.learning.logistic import RELEVANCE
from retrieval.learning.shrinkage import Posterior
from retrieval.learning.slate import Ranked
from retrieval.learning.stack import LEARNED, LogitStack

_FUSED_ID = itemgetter(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Candidates with the parts of their scores; all sequences in one order, the most relevant first."""

    ranked: Sequence[Fused]
    relevance: Sequence[float]
    """0 to 1."""
    legs: Mapping[str, Sequence[float]]
    """Scores from 0 to 1 by leg; empty with a single leg, whose score is the relevance."""
    buckets: tuple[str, ...]
    """The context buckets of the search."""
    arms: Sequence[ItemArms] = ()
    """The items' rewards; empty: nothing uses them."""
    beside: Mapping[str, Floats] = field(default_factory=dict)
    """Affinity and length for a stack: arrays of shape (candidates,)."""


def reads_arms(model: LearnedModel | None, learned: Learned, exploration: Exploration) -> bool:
    """True if exploration, a sum, or the weights of a stack use the rewards of single items."""
    if model is None:
        return not exploration.is_off
    return not exploration.is_off or learned.combination is Combination.SUM or model.stack.weighs_items


def predictions(pool: Pool, model: LearnedModel, combination: Combination) -> Posterior:
    """The predicted reward of each candidate, as the combination uses it; empty without arms."""
    if combination is Combination.SUM:
        return model.reward.predict(pool.buckets, pool.arms, pool.relevance, signals=pool.legs)
    return model.by_item.predict(pool.buckets, pool.arms)


@dataclass(frozen=True, slots=True)
class PoolScores:
    """The scores of a pool; their parts are computed only for shown items."""

    scores: Sequence[float]
    """The scores in the order of the pool."""
    parts: Callable[[int], tuple[Contribution, ...]]
    """Returns the parts of the score of the candidate at a position of the pool."""

    def order(self, pool: Pool) -> list[int]:
        """The positions of the candidates, best first; equal scores are ordered by item id."""
        keys = zip(map(neg, self.scores), map(_FUSED_ID, pool.ranked), count(), strict=False)
        return [position for _, _, position in sorted(keys)]

    def fused(self, pool: Pool, position: int) -> Fused:
        """The candidate at a position, with the parts of its score."""
        return Fused(pool.ranked[position].item_id, self.scores[position], self.parts(position))


def combined(pool: Pool, stack: LogitStack, learned: Learned, predicted: Posterior) -> PoolScores:
    """The scores of the candidates by relevance and learned reward; a sum does not use ``stack``."""
    if learned.combination is Combination.SUM:
        return _sum_scores(pool, learned.share, predicted)
    return _stack_scores(stack, pool_signals(pool, predicted))


def pool_signals(pool: Pool, predicted: Posterior) -> dict[str, Floats]:
    """The pool's signals for the stack, by name."""
    learned = {LEARNED: predicted.logit_mean} if pool.arms else {}
    named = {RELEVANCE: pool.relevance, **learned, **pool.beside, **pool.legs}
    return {name: np.asarray(values, dtype=np.float64) for name, values in named.items()}


def learned_signals(pool: Pool, predicted: Posterior) -> dict[str, list[float]]:
    """The learned signals of the candidates by name, as recorded."""
    size = predicted.effective_sample_size
    learned = {"learned": predicted.mean, "effective_sample_size": size, "logit_mean": predicted.logit_mean}
    signals = {**pool.beside, **(learned if pool.arms else {})}
    return {name: values.tolist() for name, values in signals.items()}


def _sums(pool: Pool, share: float, predicted: Posterior) -> list[float]:
    sums: list[float] = ((1 - share) * np.array(pool.relevance) + share * predicted.mean).tolist()
    return sums


def _sum_scores(pool: Pool, share: float, predicted: Posterior) -> PoolScores:
    ranks = _ranks(predicted.mean)

    def parts(position: int) -> tuple[Contribution, ...]:
        mean = float(predicted.mean[position])
        learned = Contribution(LEARNED, ranks[position], mean, share, share * mean)
        return (*scaled_parts(pool.ranked[position], (1 - share) * pool.relevance[position]), learned)

    return PoolScores(_sums(pool, share, predicted), parts)


def _stack_scores(stack: LogitStack, signals: Mapping[str, Floats]) -> PoolScores:
    columns = [
        (name, _ranks(signals[name]), signals[name].tolist(), stack.weights[name], own.tolist())
        for name, own in stack.parts(signals).items()
    ]

    def parts(position: int) -> tuple[Contribution, ...]:
        return tuple(
            Contribution(name, ranks[position], values[position], weight, own[position])
            for name, ranks, values, weight, own in columns
        )

    return PoolScores(stack.score(signals).tolist(), parts)


def _ranks(values: Floats) -> list[int]:
    """The rank of each candidate, from 1; equal values are ranked in the order of the pool."""
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return ranks.tolist()


def unlearned(pool: Pool, learned: Learned, eligible: Sequence[bool]) -> list[Ranked]:
    """The pool's candidates without a model: their rewards are estimated from their own counts.

    Exploration gives these counts the weight of a learned reward. ``eligible``: whether Thompson slots may pick each.
    """
    share = 1.0 if learned.is_off else learned.share
    return [
        Ranked(
            item_id=item.item_id,
            score=relevance,
            relevance=relevance,
            learned_share=share,
            eligible=may_be,
            arm=item.anywhere,
            uncertainty=Expectation.of_counts(item.anywhere.uses, item.anywhere.raw_successes).uncertainty,
        )
        for item, relevance, may_be in zip(pool.arms, pool.relevance, eligible, strict=True)
    ]


def scored(
    pool: Pool, stack: LogitStack, learned: Learned, predicted: Posterior, eligible: Sequence[bool]
) -> list[Ranked]:
    """The pool's candidates with the distributions of their rewards, in the order of the pool.

    ``eligible``: whether Thompson slots may pick each.
    """
    share, means, sizes = learned.share, predicted.mean, predicted.effective_sample_size
    if learned.combination is Combination.SUM:
        scores = _sums(pool, share, predicted)
    else:
        chances = stack.probability(pool_signals(pool, predicted), np.ones(len(pool.ranked)))
        share, scores, means, sizes = 1.0, chances.tolist(), chances, stack.sample_sizes(chances, means, sizes)
    columns = (values.tolist() for values in (means, sizes, predicted.uncertainty))
    return [
        Ranked(
            item_id=item.item_id,
            score=score,
            relevance=relevance,
            learned_share=share,
            eligible=may_be,
            arm=item.anywhere,
            reward_mean=mean,
            effective_sample_size=size,
            uncertainty=uncertainty,
        )
        for item, score, relevance, may_be, mean, size, uncertainty in zip(
            pool.arms, scores, pool.relevance, eligible, *columns, strict=True
        )
    ]


def predicted(
    model: LearnedModel,
    learned: Learned,
    buckets: Sequence[str],
    items: Sequence[ItemArms],
    relevance: Mapping[str, float],
) -> dict[str, Expectation]:
    """The model's predictions for the items, as a search with that combination computes them. Pure."""
    if learned.combination is Combination.SUM:
        relevances = [relevance.get(item.item_id) for item in items]
        rewards = model.reward.predict(buckets, items, relevances)
    else:
        rewards = model.by_item.predict(buckets, items)
    columns = (values.tolist() for values in (rewards.mean, rewards.sd, rewards.effective_sample_size))
    return {
        item.item_id: Expectation(mean=mean, sd=sd, uses=item.anywhere.uses, effective_sample_size=size)
        for item, mean, sd, size in zip(items, *columns, strict=True)
    }


def checked_relevance(relevance: Mapping[str, float]) -> Mapping[str, float]:
    """The numbers by item id. Raises ``InvalidRequestError`` unless it is a mapping of numbers from 0 to 1."""
    if not isinstance(relevance, Mapping):
        raise InvalidRequestError(f"relevance is {written(relevance)}; it must be numbers from 0 to 1 by item id")
    for item_id, value in relevance.items():
        if not is_number(value, 0, 1):
            raise InvalidRequestError(
                f"the relevance of {written(item_id)} is {written(value)}; it is a number from 0 to 1"
            )
    return relevance
