"""The candidates of a search as exploration sees them: what is known of each, and how uncertain that is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from retrieval.domain.expectation import Expectation
from retrieval.domain.exploration import Exploration
from retrieval.domain.learned import Combination, Learned
from retrieval.engine.scoring import Pool, pool_signals
from retrieval.learning.learned_model import LearnedModel
from retrieval.learning.prediction import Prediction
from retrieval.learning.ranked import Ranked, is_eligible


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
                score=(1 - learned.share) * relevance + learned.share * one.mean,
                relevance=relevance,
                learned_share=learned.share,
                eligible=is_eligible(item.anywhere, item.created_at, now, exploration),
                arm=item.anywhere,
                reward_mean=one.mean,
                effective_sample_size=one.effective_sample_size,
                uncertainty=one.uncertainty,
            )
            for item, relevance, one in zip(pool.arms, pool.relevance, predicted, strict=True)
        ]
    chances = model.stack.probability(pool_signals(pool, predicted), np.ones(len(pool.arms)))
    means, sizes = np.array([(one.mean, one.effective_sample_size) for one in predicted]).reshape(-1, 2).T
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
            uncertainty=one.uncertainty,
        )
        for item, relevance, one, chance, size in zip(
            pool.arms, pool.relevance, predicted, chances.tolist(), sizes.tolist(), strict=True
        )
    ]
