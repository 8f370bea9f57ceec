"""The candidates of a search as exploration sees them: what is known of each, and how uncertain that is. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from retrieval.domain.arm import Arm
from retrieval.domain.exploration import Exploration
from retrieval.domain.learned import Combination, Learned
from retrieval.engine.scoring import Pool, pool_signals
from retrieval.learning.learned_model import LearnedModel
from retrieval.learning.prediction import Prediction
from retrieval.learning.ranked import Ranked, is_eligible
from retrieval.learning.stack import LEARNED


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
            reward_sd=_beta_sd(item.anywhere),
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
                logit_mean=one.logit_mean,
                logit_sd=one.logit_sd,
                reward_sd=one.sd,
            )
            for item, relevance, one in zip(pool.arms, pool.relevance, predicted, strict=True)
        ]
    chances = model.stack.probability(pool_signals(pool, predicted), np.ones(len(pool.arms)))
    weight = model.stack.weights.get(LEARNED, 0.0)
    return [
        Ranked(
            item_id=item.item_id,
            score=chance,
            relevance=relevance,
            eligible=is_eligible(item.anywhere, item.created_at, now, exploration),
            arm=item.anywhere,
            logit_mean=math.log(chance / (1 - chance)),
            logit_sd=weight * one.logit_sd,
            reward_sd=one.sd,
        )
        for item, relevance, one, chance in zip(
            pool.arms, pool.relevance, predicted, np.clip(chances, 1e-6, 1 - 1e-6).tolist(), strict=True
        )
    ]


def _beta_sd(arm: Arm) -> float:
    """The standard deviation of Beta(successes + 1, failures + 1) of the raw counts."""
    a, b = arm.raw_successes + 1, arm.uses - arm.raw_successes + 1
    return math.sqrt(a * b / ((a + b) ** 2 * (a + b + 1)))
