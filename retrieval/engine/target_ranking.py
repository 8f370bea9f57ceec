"""The candidates of a recorded search in the order of another profile: its legs and fusion, and what was learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from retrieval.domain.arm import Arm
from retrieval.domain.expectation import Expectation, uncertainty_of
from retrieval.domain.fusion import fused_again
from retrieval.domain.learned import Combination, Learned
from retrieval.domain.profile import Profile, leg_of
from retrieval.domain.recorded_pool import Optional, RecordedPool
from retrieval.domain.refining import REFINING
from retrieval.domain.relevance import leg_features_again, on_unit_scale
from retrieval.engine.scoring import stack_signals
from retrieval.learning.learned_model import LearnedModel
from retrieval.learning.ranked import Ranked


class Candidate(NamedTuple):
    """A candidate as the profile sees it."""

    item_id: str
    score: float
    """What it is ranked by."""
    relevance: float
    """0 to 1."""
    place: int
    """In the recorded pool."""
    legs: Mapping[str, float]
    """Its score in each leg, 0 to 1; none where there is one leg."""
    contender: Ranked
    """As exploration sees it."""


def knows_likeness(pool: RecordedPool, profile: Profile) -> bool:
    """Whether the pool tells what the profile refines by: it does for weights that bring the same best candidate."""
    legs = {name: weight for name, weight in profile.legs.items() if weight}
    if profile.refining.is_off or len(legs) == 1:
        return True
    weights = None if pool.weights is None else {name: weight for name, weight in pool.weights.items() if weight}
    return REFINING in pool.scores and weights == legs


def by_relevance(pool: RecordedPool, profile: Profile) -> list[Candidate] | None:
    """The candidates of the profile's legs as ``retrieval.domain.fusion.fuse`` scores them; None: a leg did not run.

    A candidate that the pool does not hold is not found, and a profile whose legs look deeper sees no deeper.
    """
    weights = {name: weight for name, weight in profile.weights_of(pool.scores).items() if weight}
    if not {name for name, weight in profile.weights.items() if weight} <= {leg_of(name) for name in weights}:
        return None
    if len(weights) == 1 + (REFINING in weights):  # of one leg, nothing is refined
        weights.pop(REFINING, None)
    legs, ranks = {leg: pool.scores[leg] for leg in weights}, {leg: pool.ranks[leg] for leg in weights}
    bests = {leg: pool.bests[leg] for leg in weights}
    scores = fused_again(legs, ranks, bests, weights, profile.fusion)
    relevances = on_unit_scale(scores, bests, profile)
    features = leg_features_again(legs, bests)
    return [
        Candidate(
            item_id,
            scores[place],
            relevances[place],
            place,
            {leg: values[place] for leg, values in features.items()},
            _unlearned(pool, place, relevances[place], profile.learned),
        )
        for place, item_id in enumerate(pool.item_ids)
        if any(column[place] is not None for column in legs.values())
    ]


def with_learned(
    candidates: list[Candidate], pool: RecordedPool, learned: Learned, model: LearnedModel | None
) -> list[Candidate] | None:
    """The candidates with the learned reward in their scores, as the recorded search had it; None: that cannot be done.

    Where nothing learned counted in that search, nothing does, nor where its model was not good enough for the
    profile's combination. ``model`` is the one of the recorded version; without it only a sum can be worked out.
    """
    if learned.is_off or not pool.learned:
        return candidates
    if model is not None and learned.combination not in model.passed and not model.is_trusted(learned):
        return candidates
    if not _is_about_the_same(pool, learned, model):
        return None
    # What was learned chose among the most relevant; the rest of the pool was never a candidate.
    candidates = [one for one in candidates if _at(pool.learned, one.place) is not None]
    if learned.combination is Combination.SUM:
        return [_summed(one, pool, learned.share) for one in candidates]
    return None if model is None else _stacked(candidates, pool, model)


def in_order(candidates: list[Candidate]) -> list[Candidate]:
    """The best first; equal scores are ordered by item id."""
    return sorted(candidates, key=lambda one: (-one.score, one.item_id))


def _is_about_the_same(pool: RecordedPool, learned: Learned, model: LearnedModel | None) -> bool:
    """Whether the recorded predictions are those that the combination needs.

    The stack is about items alone; what a sum adds may know of relevance too.
    """
    if pool.combination in (None, learned.combination):
        return True
    return model is not None and model.reward.as_dict() == model.by_item.as_dict()


def _unlearned(pool: RecordedPool, place: int, relevance: float, learned: Learned) -> Ranked:
    arm = Arm(uses=int(_at(pool.uses, place) or 0), raw_successes=int(_at(pool.raw_successes, place) or 0))
    return Ranked(
        item_id=pool.item_ids[place],
        score=relevance,
        relevance=relevance,
        learned_share=1.0 if learned.is_off else learned.share,
        eligible=bool(_at(pool.eligible, place)),
        arm=arm,
        uncertainty=Expectation.of_counts(arm.uses, arm.raw_successes).uncertainty,
    )


def _summed(one: Candidate, pool: RecordedPool, share: float) -> Candidate:
    mean = _at(pool.learned, one.place)
    if mean is None:
        return one._replace(score=one.relevance)
    score = (1 - share) * one.relevance + share * mean
    size = _at(pool.effective_sample_size, one.place) or 0.0
    contender = replace(
        one.contender,
        score=score,
        learned_share=share,
        reward_mean=mean,
        effective_sample_size=size,
        uncertainty=uncertainty_of(size),
    )
    return one._replace(score=score, contender=contender)


def _stacked(candidates: list[Candidate], pool: RecordedPool, model: LearnedModel) -> list[Candidate] | None:
    """As ``retrieval.engine.contenders.scored`` has them; None: a candidate's signals were not recorded."""
    logits = [_at(pool.logit_mean, one.place) for one in candidates]
    known = [logit for logit in logits if logit is not None]
    if len(known) < len(candidates):
        return None
    signals = stack_signals(
        relevance=[one.relevance for one in candidates],
        legs={leg: [one.legs[leg] for one in candidates] for leg in (candidates[0].legs if candidates else ())},
        logits=known,
        cosines=[_at(pool.cosine, one.place) for one in candidates],
    )
    scores = model.stack.score(signals).tolist()
    chances = model.stack.probability(signals, np.ones(len(candidates)))
    means, sizes = (
        np.array([_at(column, one.place) or 0.0 for one in candidates])
        for column in (pool.learned, pool.effective_sample_size)
    )
    drawn = model.stack.sample_sizes(chances, means, sizes)
    return [
        one._replace(
            score=score,
            contender=replace(
                one.contender,
                score=chance,
                learned_share=1.0,
                reward_mean=chance,
                effective_sample_size=size,
                uncertainty=uncertainty_of(own),
            ),
        )
        for one, score, chance, size, own in zip(
            candidates, scores, chances.tolist(), drawn.tolist(), sizes.tolist(), strict=True
        )
    ]


def _at(column: Optional | Sequence[float], place: int) -> float | None:
    return column[place] if column else None
