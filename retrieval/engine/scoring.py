"""Candidates as learning sees them: relevance and learned reward become one score, with an expectation of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.learning.arms import read_arms
from retrieval.domain.checks import is_number
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.arm import Expectation, ItemArms
from retrieval.domain.search.fusion import Fused, scaled_parts
from retrieval.domain.search.hit import Contribution
from retrieval.domain.search.profile_parts import Combination, Exploration, Learned
from retrieval.learning.arm_table import Floats
from retrieval.learning.learned_model import LearnedModel
from retrieval.learning.ranked import Ranked, is_eligible
from retrieval.learning.shrinkage import Prediction
from retrieval.learning.stack import AFFINITY, LEARNED, LENGTH, RELEVANCE, LogitStack, affinity_signal, length_signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Candidates with the parts of their scores; all sequences in one order, the most relevant first."""

    ranked: Sequence[Fused]
    relevance: Sequence[float]
    """0 to 1."""
    legs: Mapping[str, Sequence[float]]
    """Scores from 0 to 1 by leg; empty where there is one leg, whose score relevance is."""
    arms: Sequence[ItemArms]
    cosines: Sequence[float | None]
    """Cosines of the query and the queries that each item was rewarded for; None: the item never was."""
    buckets: tuple[str, ...]
    """The context buckets of the search."""


def predictions(pool: Pool, model: LearnedModel, combination: Combination) -> list[Prediction]:
    """Predicts the reward of each candidate, as the combination needs it."""
    if combination is Combination.SUM:
        return model.reward.predict(pool.buckets, pool.arms, pool.relevance, signals=pool.legs)
    return model.by_item.predict(pool.buckets, pool.arms)


@dataclass(frozen=True, slots=True)
class PoolScores:
    """The scores of a pool; their parts are made only for items that are shown."""

    scores: Sequence[float]
    """The scores in the order of the pool."""
    parts: Callable[[int], tuple[Contribution, ...]]
    """The parts of the score of the candidate at that place of the pool."""

    def order(self, pool: Pool) -> list[int]:
        """The places of the candidates, the best first; equal scores are ordered by item id."""
        places = range(len(self.scores))
        return sorted(places, key=lambda place: (-self.scores[place], pool.ranked[place].item_id))

    def fused(self, pool: Pool, place: int) -> Fused:
        """The candidate at a place, explained."""
        parts = self.parts(place)
        return Fused(pool.ranked[place].item_id, sum(part.value for part in parts), parts)


def combined(pool: Pool, model: LearnedModel, learned: Learned, predicted: Sequence[Prediction]) -> PoolScores:
    """The scores of the candidates by relevance and learned reward."""
    if learned.combination is Combination.SUM:
        return _summed(pool, learned.share, predicted)
    return _stacked(model.stack, pool_signals(pool, predicted))


def pool_signals(pool: Pool, predicted: Sequence[Prediction]) -> dict[str, Floats]:
    """The stack's signals of the pool, by name."""
    logits = [prediction.logit_mean for prediction in predicted]
    lengths = _lengths(pool)
    return stack_signals(relevance=pool.relevance, legs=pool.legs, logits=logits, cosines=pool.cosines, lengths=lengths)


def _lengths(pool: Pool) -> Sequence[float]:
    lengths: list[float] = length_signal([item.octets for item in pool.arms]).tolist()
    return lengths


def learned_signals(pool: Pool, predicted: Sequence[Prediction]) -> dict[str, dict[str, float | None]]:
    """The learned signals of the candidates, by name and item id, as they are recorded."""
    return {
        "learned": {prediction.item_id: prediction.mean for prediction in predicted},
        "effective_sample_size": {prediction.item_id: prediction.effective_sample_size for prediction in predicted},
        "logit_mean": {prediction.item_id: prediction.logit_mean for prediction in predicted},
        "cosine": {candidate.item_id: cosine for candidate, cosine in zip(pool.ranked, pool.cosines, strict=True)},
        LENGTH: {candidate.item_id: length for candidate, length in zip(pool.ranked, _lengths(pool), strict=True)},
    }


def stack_signals(
    *,
    relevance: Sequence[float],
    legs: Mapping[str, Sequence[float]],
    logits: Sequence[float],
    cosines: Sequence[float | None],
    lengths: Sequence[float | None],
) -> dict[str, Floats]:
    """The signals of the stack by name, each of shape (candidates,); a length that is not known counts 0."""
    named = {RELEVANCE: np.array(relevance, dtype=np.float64), LEARNED: np.array(logits, dtype=np.float64)}
    named[AFFINITY] = affinity_signal(cosines)
    named[LENGTH] = np.array([length or 0.0 for length in lengths], dtype=np.float64)
    return named | {leg: np.array(scores, dtype=np.float64) for leg, scores in legs.items()}


def _summed(pool: Pool, share: float, predicted: Sequence[Prediction]) -> PoolScores:
    means = np.array([prediction.mean for prediction in predicted])
    ranks = _ranks(means)

    def parts(place: int) -> tuple[Contribution, ...]:
        mean = float(means[place])
        learned = Contribution(LEARNED, ranks[place], mean, share, share * mean)
        return (*scaled_parts(pool.ranked[place], (1 - share) * pool.relevance[place]), learned)

    return PoolScores(((1 - share) * np.array(pool.relevance) + share * means).tolist(), parts)


def _stacked(stack: LogitStack, signals: Mapping[str, Floats]) -> PoolScores:
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

    return PoolScores(stack.score(signals).tolist(), parts)


def _ranks(values: Floats) -> list[int]:
    """The rank of each candidate, from 1; equal ones are in the order of the pool."""
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return ranks.tolist()


def unlearned(pool: Pool, learned: Learned, exploration: Exploration, now: datetime) -> list[Ranked]:
    """The pool's candidates where no model is in use: their own counts are all that is known of their rewards.

    In a contest for a place, these count as much as a learned reward will.
    """
    share = 1.0 if learned.is_off else learned.share
    return [
        Ranked(
            item_id=item.item_id,
            score=relevance,
            relevance=relevance,
            learned_share=share,
            eligible=is_eligible(item.anywhere, item.created_at, now, exploration),
            arm=item.anywhere,
            uncertainty=Expectation.of_counts(item.anywhere.uses, item.anywhere.raw_successes).uncertainty,
        )
        for item, relevance in zip(pool.arms, pool.relevance, strict=True)
    ]


def scored(
    pool: Pool,
    model: LearnedModel,
    learned: Learned,
    predicted: Sequence[Prediction],
    *,
    exploration: Exploration,
    now: datetime,
) -> list[Ranked]:
    """The pool's candidates with the distribution of what they will earn, in the order of the pool."""
    if learned.combination is Combination.SUM:
        return [
            Ranked(
                item_id=item.item_id,
                score=(1 - learned.share) * relevance + learned.share * prediction.mean,
                relevance=relevance,
                learned_share=learned.share,
                eligible=is_eligible(item.anywhere, item.created_at, now, exploration),
                arm=item.anywhere,
                reward_mean=prediction.mean,
                effective_sample_size=prediction.effective_sample_size,
                uncertainty=prediction.uncertainty,
            )
            for item, relevance, prediction in zip(pool.arms, pool.relevance, predicted, strict=True)
        ]
    chances = model.stack.probability(pool_signals(pool, predicted), np.ones(len(pool.arms)))
    means, sizes = (
        np.array([(prediction.mean, prediction.effective_sample_size) for prediction in predicted]).reshape(-1, 2).T
    )
    sizes = model.stack.sample_sizes(chances, means, sizes)
    return [
        Ranked(
            item_id=item.item_id,
            score=chance,
            relevance=relevance,
            eligible=is_eligible(item.anywhere, item.created_at, now, exploration),
            arm=item.anywhere,
            reward_mean=chance,
            effective_sample_size=size,
            uncertainty=prediction.uncertainty,
        )
        for item, relevance, prediction, chance, size in zip(
            pool.arms, pool.relevance, predicted, chances.tolist(), sizes.tolist(), strict=True
        )
    ]


async def read_expectations(
    database: Database,
    tenant_id: int,
    collection: StoredCollection,
    item_ids: Sequence[str],
    *,
    model: LearnedModel | None,
    buckets: Sequence[str],
    relevance: Mapping[str, float],
    now: datetime,
) -> dict[str, Expectation]:
    """The expectations by item id, of each item in the context of these buckets, from its arms at this moment."""
    collection_id = collection.collection_id
    arms = await read_arms(database, tenant_id, collection_id, item_ids=item_ids, buckets=buckets, now=now)
    if model is None:
        return {item_id: _counted(item) for item_id, item in arms.items()}
    return predicted(model, collection.profile.learned, buckets, list(arms.values()), relevance)


def predicted(
    model: LearnedModel,
    learned: Learned,
    buckets: Sequence[str],
    items: Sequence[ItemArms],
    relevance: Mapping[str, float],
) -> dict[str, Expectation]:
    """The model's predictions for the items, as a search with that combination computes them. Pure."""
    if learned.combination is Combination.SUM:
        known = [relevance.get(item.item_id) for item in items]
        found = model.reward.predict(buckets, items, known)
    else:
        found = model.by_item.predict(buckets, items)
    return {
        prediction.item_id: Expectation(
            mean=prediction.mean,
            sd=prediction.sd,
            uses=item.anywhere.uses,
            effective_sample_size=prediction.effective_sample_size,
        )
        for item, prediction in zip(items, found, strict=True)
    }


def checked_relevance(relevance: Mapping[str, float]) -> Mapping[str, float]:
    """The numbers by item id. Raises ``InvalidRequestError`` for no mapping, or a number outside 0 to 1."""
    if not isinstance(relevance, Mapping):
        raise InvalidRequestError(f"relevance is {relevance!r:.80}; it comes as numbers from 0 to 1 by item id")
    for item_id, value in relevance.items():
        if not is_number(value, 0, 1):
            raise InvalidRequestError(f"the relevance of {item_id!r:.80} is {value!r:.40}; it is a number from 0 to 1")
    return relevance


def _counted(item: ItemArms) -> Expectation:
    return Expectation.of_counts(item.anywhere.uses, item.anywhere.raw_successes)
