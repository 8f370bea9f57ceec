"""A recorded search under another profile: the order of its candidates, and their probabilities of being shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from retrieval.domain.learning.arm import Arm, ItemArms
from retrieval.domain.learning.context import ANYWHERE
from retrieval.domain.records.recorded import PoolColumn, RecordedPool
from retrieval.domain.search.diversity import LEAST_DIFFERENCE, NO_VECTORS, REFINING, PoolVectors
from retrieval.domain.search.fusion import Candidate, Fused, fused_again, leg_features_again, on_unit_scale, refined
from retrieval.domain.search.profile import FusionKind, Profile, leg_of
from retrieval.domain.search.profile_parts import Combination, Exploration, Learned, PolicyName, PosteriorKind
from retrieval.domain.search.reranking import reranked_scores
from retrieval.engine.plan import SCORED_BOTH_WAYS, leg_depth, pool_size
from retrieval.engine.ranking import ROUNDING
from retrieval.engine.scoring import Pool, combined, scored, unlearned
from retrieval.learning.arm_table import Floats
from retrieval.learning.learned_model import LearnedModel
from retrieval.learning.shrinkage import Posterior
from retrieval.learning.slate import Ranked, slate_probabilities
from retrieval.learning.stack import AFFINITY, LENGTH, LogitStack


class TargetCandidate(NamedTuple):
    """A candidate under the profile."""

    item_id: str
    score: float
    """The score that determines its rank."""
    relevance: float
    """0 to 1."""
    position: int
    """The position in the recorded pool."""
    legs: Mapping[str, float]
    """Its score in each leg, 0 to 1; empty with a single leg."""
    contender: Ranked = Ranked(item_id="")
    """The candidate as exploration sees it."""


def needs_vectors(pool: RecordedPool, target: NamedProfile) -> bool:
    """Whether ``target_slate`` needs the candidates' vectors: the profile refines another order than the recorded one.

    A version that answered the search needs none, because its probabilities are recorded.
    """
    return not _answered(pool, target) and REFINING in pool.scores and _refines_anew(pool, target.profile)


def _answered(pool: RecordedPool, target: NamedProfile) -> bool:
    """Whether this version of the profile answered the search."""
    return target.version is not None and target.version == pool.profile_version


def with_likeness(pool: RecordedPool, profile: Profile, vectors: PoolVectors) -> RecordedPool:
    """The pool with the likenesses by which the profile refines; without any where they are not known.

    For another order than the recorded one they follow from ``vectors``, the candidates' present ones, if the recorded
    likenesses follow from these too: otherwise a candidate has changed since.
    """
    if not _refines_anew(pool, profile):
        return pool
    scores, recorded = dict(pool.scores), pool.scores.get(REFINING)
    scores.pop(REFINING, None)
    if pool.profile is None or recorded is None:
        return replace(pool, scores=scores)
    if all(map(_is_same, recorded, _likenesses(pool, pool.profile, vectors))):
        scores[REFINING] = _likenesses(pool, profile, vectors)
    return replace(pool, scores=scores)


def _refines(profile: Profile) -> bool:
    return not (profile.refining.is_off or _is_single(profile))


def _refines_anew(pool: RecordedPool, profile: Profile) -> bool:
    """Whether the profile refines another order by relevance than that of the search."""
    then = pool.profile
    return _refines(profile) and (then is None or _relevance(then) != _relevance(profile))


def _likenesses(pool: RecordedPool, profile: Profile, vectors: PoolVectors) -> list[float | None]:
    """Each candidate's likeness to the best one in the profile's order before refining; None: it has no vector."""
    within = within_depth(pool, profile)
    rankings = {leg: _ranking(leg, within) for leg in _leg_ranks(within, profile)}
    alike = refined(rankings, profile.weights_of(rankings), profile.fusion, profile.depth, vectors).get(REFINING, ())
    by_id = {candidate.item_id: candidate.score for candidate in alike}
    return [by_id.get(item_id) for item_id in pool.item_ids]


def _ranking(leg: str, pool: RecordedPool) -> list[Candidate]:
    known = zip(pool.item_ids, pool.scores[leg], strict=True)
    best_first = sorted((-score, item_id) for item_id, score in known if score is not None)
    return [Candidate(leg, item_id, rank, -opposite) for rank, (opposite, item_id) in enumerate(best_first, 1)]


def _is_same(one: float | None, other: float | None) -> bool:
    """Whether two likenesses are equal, but for the rounding of sums in another order."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= LEAST_DIFFERENCE


def knows_candidates(pool: RecordedPool, profile: Profile) -> bool:
    """Whether the pool has every candidate from which the profile would make its hits.

    Of an order by relevance that is the recorded one, these are the best. Of any other, each leg's candidates are
    needed, to the profile's depth; a leg that brought fewer than the search asked for has no others.
    """
    then, is_whole = pool.profile, _is_whole(pool)
    if then is not None and (_relevance(then), then.refining) == (_relevance(profile), profile.refining):
        needed = pool_size(profile, pool.limit, is_final=_is_final(pool, profile))
        return is_whole or len(pool.item_ids) >= needed
    if profile.signals:
        return is_whole
    depth, asked = _depth(pool, profile), _asked(pool)
    each = [set(filter(None, ranks)) for ranks in _leg_ranks(pool, profile).values()]
    return all(len(ranks) < asked or ranks.issuperset(range(1, depth + 1)) for ranks in each)


def knows_scores(pool: RecordedPool, profile: Profile) -> bool:
    """Whether the pool has each candidate's score in both legs, which only a weighted sum of both looks up."""
    if not _sums_both(profile) or (pool.profile is not None and _sums_both(pool.profile)):
        return True
    within, asked = within_depth(pool, profile), _asked(pool)
    # An item that such a leg did not bring has no score in it.
    complete = {name for name, ranks in _leg_ranks(pool, profile).items() if sum(map(bool, ranks)) < asked}
    rows = zip(*within.scores.values(), strict=True)
    candidates = [position for position, row in enumerate(rows) if any(score is not None for score in row)]
    columns = [within.scores[name] for name in _leg_ranks(pool, profile).keys() - complete]
    return all(column[position] is not None for column in columns for position in candidates)


def within_depth(pool: RecordedPool, profile: Profile) -> RecordedPool:
    """The pool with the scores and ranks of only those candidates that the profile's legs would bring."""
    columns, then, depth = _leg_ranks(pool, profile), pool.profile, _depth(pool, profile)
    # Candidates without a rank were looked up beside those of a leg, which an index may have missed.
    brings_all = then is not None and _legs(then) == _legs(profile) and _depth(pool, then) <= depth
    if profile.signals or not columns or brings_all:
        return pool
    is_within = [any(rank and rank <= depth for rank in ranks) for ranks in zip(*columns.values(), strict=True)]
    return replace(
        pool,
        scores={
            leg: [score if is_kept else None for score, is_kept in zip(column, is_within, strict=True)]
            for leg, column in pool.scores.items()
        },
        ranks={
            leg: [rank if rank and (rank <= depth or leg == REFINING) else None for rank in ranks]
            for leg, ranks in pool.ranks.items()
        },
    )


def _legs(profile: Profile) -> set[str]:
    return {name for name, weight in profile.legs.items() if weight}


def _is_single(profile: Profile) -> bool:
    return len(_legs(profile)) == 1


def _relevance(profile: Profile) -> tuple[Any, ...]:
    """What determines the order of candidates by relevance, before refining."""
    weights = {name: weight for name, weight in profile.legs.items() if weight}
    depth = None if _is_single(profile) else profile.depth
    return weights, depth, profile.fusion, profile.signals, profile.min_score, profile.rerank


def _is_whole(pool: RecordedPool) -> bool:
    """True if all candidates of the search are certainly recorded."""
    return pool.profile is not None and len(pool.item_ids) < pool.profile.recording.pool


def _is_final(pool: RecordedPool, profile: Profile) -> bool:
    """True if neither learning nor exploration changes the profile's order by relevance."""
    learns = not profile.learned.is_off and (pool.learned or pool.length)
    return not learns and profile.exploration.policy is PolicyName.OFF


def _depth(pool: RecordedPool, profile: Profile) -> int:
    """The number of candidates that each leg of the profile would bring."""
    is_alone = _is_single(profile) and profile.rerank is None and profile.diversity.is_off and not profile.signals
    return pool.limit if is_alone and _is_final(pool, profile) else leg_depth(profile, pool.limit)


def _asked(pool: RecordedPool) -> int:
    """The number of candidates that each leg was asked for; 0: it is not known, or not all candidates are recorded."""
    return 0 if pool.profile is None or not _is_whole(pool) else _depth(pool, pool.profile)


def _leg_ranks(pool: RecordedPool, profile: Profile) -> dict[str, Sequence[int | None]]:
    """The recorded ranks in the legs that the profile weighs."""
    return {name: ranks for name, ranks in pool.ranks.items() if name != REFINING and profile.legs.get(leg_of(name))}


def _sums_both(profile: Profile) -> bool:
    return profile.fusion.kind is FusionKind.WEIGHTED_SUM and all(map(profile.legs.get, SCORED_BOTH_WAYS))


def knows_reranking(pool: RecordedPool, profile: Profile) -> bool:
    """Whether the pool has the score by the profile's reranker of each candidate that the profile reranks."""
    rerank = profile.rerank
    if rerank is None:
        return True
    if not pool.rerank or rerank.model not in (None, pool.reranker):
        return False
    best = in_order(by_relevance(within_depth(pool, profile), replace(profile, rerank=None)) or [])[: rerank.candidates]
    return all(pool.rerank[candidate.position] is not None for candidate in best)


def by_relevance(pool: RecordedPool, profile: Profile) -> list[TargetCandidate] | None:
    """The candidates of the profile's legs with the scores of ``fuse``; None: a leg did not run."""
    weights = {name: weight for name, weight in profile.weights_of(pool.scores).items() if weight}
    if not {name for name, weight in profile.weights.items() if weight} <= {leg_of(name) for name in weights}:
        return None
    if len(weights) == 1 + (REFINING in weights):  # a single leg is not refined
        weights.pop(REFINING, None)
    legs, ranks = {leg: pool.scores[leg] for leg in weights}, {leg: pool.ranks[leg] for leg in weights}
    bests = {leg: pool.bests[leg] for leg in weights}
    scores = fused_again(legs, ranks, bests, weights, profile.fusion)
    least = -math.inf if profile.min_score is None else profile.min_score - ROUNDING
    is_enough = [score >= least for score in scores]
    relevances = on_unit_scale(scores, bests, profile)
    if profile.rerank is not None and pool.rerank:
        scores = relevances = reranked_scores(relevances, pool.rerank, profile.rerank.weight)
    # The features of a stack are of every leg that ran; those of a union have no weight.
    ran = [name for name in pool.scores if name in weights or profile.legs.get(leg_of(name))]
    features = leg_features_again({name: pool.scores[name] for name in ran}, {name: pool.bests[name] for name in ran})
    candidates = [
        TargetCandidate(
            item_id,
            scores[position],
            relevances[position],
            position,
            {leg: values[position] for leg, values in features.items()},
        )
        for position, item_id in enumerate(pool.item_ids)
        if is_enough[position] and any(column[position] is not None for column in legs.values())
    ]
    contenders = unlearned(_scoring_pool(candidates, pool), profile.learned, _eligible(candidates, pool))
    return [
        candidate._replace(contender=contender) for candidate, contender in zip(candidates, contenders, strict=True)
    ]


def with_learned(
    candidates: list[TargetCandidate], pool: RecordedPool, learned: Learned, model: LearnedModel | None
) -> list[TargetCandidate] | None:
    """The candidates with the learned reward in their scores, as in the recorded search; None: not computable.

    Scores are unchanged if the search used no model, or if its model had not passed for the profile's combination.
    ``model`` is that of the recorded version; without it only a sum can be computed.
    """
    if learned.is_off or not (pool.learned or pool.length):
        return candidates
    if model is not None and learned.combination not in model.passed and not model.is_trusted(learned):
        return candidates
    is_sum = learned.combination is Combination.SUM
    column = pool.learned if is_sum else pool.length
    if not column or not _fits_predictions(pool, learned, model):
        return None
    if not is_sum and (model is None or (model.stack.weighs_items and not pool.logit_mean)):
        return None
    # The model reordered only the most relevant candidates; the rest of the pool was left out.
    candidates = [candidate for candidate in candidates if column[candidate.position] is not None]
    own, stack = _scoring_pool(candidates, pool), LogitStack() if model is None else model.stack
    columns = (pool.learned, pool.effective_sample_size, pool.logit_mean)
    predicted = Posterior(*(_column(values, candidates) for values in columns))
    scores = combined(own, stack, learned, predicted).scores
    contenders = scored(own, stack, learned, predicted, _eligible(candidates, pool))
    rows = zip(candidates, scores, contenders, strict=True)
    return [candidate._replace(score=score, contender=contender) for candidate, score, contender in rows]


def in_order(candidates: list[TargetCandidate]) -> list[TargetCandidate]:
    """The candidates, best first; equal scores are ordered by item id."""
    return sorted(candidates, key=lambda hit: (-hit.score, hit.item_id))


def _fits_predictions(pool: RecordedPool, learned: Learned, model: LearnedModel | None) -> bool:
    """True if the recorded predictions are those that the combination uses.

    The stack uses predictions by item alone; a sum's predictions may depend on relevance too.
    """
    if pool.profile is None or pool.profile.learned.combination is learned.combination:
        return True
    return model is not None and model.reward.as_dict() == model.by_item.as_dict()


def _scoring_pool(candidates: Sequence[TargetCandidate], pool: RecordedPool) -> Pool:
    columns = {AFFINITY: pool.affinity, LENGTH: pool.length}
    return Pool(
        ranked=[Fused(candidate.item_id, candidate.relevance, ()) for candidate in candidates],
        relevance=[candidate.relevance for candidate in candidates],
        legs={
            leg: [candidate.legs[leg] for candidate in candidates] for leg in (candidates[0].legs if candidates else ())
        },
        buckets=(),
        arms=[ItemArms(item_id=candidate.item_id, arms={ANYWHERE: _arm(candidate, pool)}) for candidate in candidates],
        beside={name: _column(values, candidates) for name, values in columns.items() if values},
    )


def _arm(candidate: TargetCandidate, pool: RecordedPool) -> Arm:
    return Arm(uses=int(_at(pool.uses, candidate)), raw_successes=int(_at(pool.raw_successes, candidate)))


def _column(values: PoolColumn, candidates: Sequence[TargetCandidate]) -> Floats:
    """The candidates' numbers, (candidates,); a number that was not recorded is 0."""
    return np.array([_at(values, candidate) for candidate in candidates], dtype=np.float64)


def _eligible(candidates: Sequence[TargetCandidate], pool: RecordedPool) -> list[bool]:
    return [bool(_at(pool.eligible, candidate)) for candidate in candidates]


def _at(column: PoolColumn, candidate: TargetCandidate) -> float:
    return (column[candidate.position] or 0.0) if column else 0.0


class Unanswerable(StrEnum):
    """The reason why a recorded search cannot show the answer of another profile."""

    COMPOSED = "an application composed it"
    NO_HITS = "it showed no hit"
    CONTINUED = "it was a further page, whose hits depend on the pages before it"
    NO_POOL = "no candidates were recorded with it"
    GROUPED = "it showed the best of each group"
    LEAST = "it showed no hit below a least score or relevance"
    DIVERSE = "near-duplicates are left out by vectors, which are not recorded"
    REFINED = "it did not refine, or its candidates have changed since, so that their likeness is not known"
    SYNONYMS = "it was answered with other synonyms"
    SHORT = "candidates were not recorded: the legs of the profile go deeper, or recording.pool is too small"
    UNSCORED = "candidates have no score in each leg: the profile that answered did not sum scores"
    RERANKED = "some candidates have no score of the reranker that it asks for"
    NO_LEG = "a leg of the profile did not run"
    EMPTY = "a profile would show no hit"
    LEARNED = "the recorded predictions are not those of this combination"
    NO_ELIGIBLE = "the items that the profile would explore were not recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedProfile:
    """A profile with the name by which it was requested."""

    name: str
    profile: Profile
    version: int | None = None
    """The version of the stored profile; None: it is not stored."""


def target_slate(
    pool: RecordedPool, target: NamedProfile, model: LearnedModel | None = None, vectors: PoolVectors = NO_VECTORS
) -> Mapping[str, float] | Unanswerable:
    """The probability of being shown by item id, of one item at least, without items whose probability is 0.

    If this version answered the search, the probabilities are the recorded ones. Otherwise the candidates are ranked
    again. ``model``: the model that the search used; None: none, or it no longer exists. ``vectors``: the candidates'
    present ones, if ``needs_vectors``.
    """
    if pool.origin:
        return Unanswerable.COMPOSED
    if not pool.shown:
        return Unanswerable.NO_HITS
    if pool.is_continued:
        return Unanswerable.CONTINUED
    if _answered(pool, target):
        # Some of the hits that were drawn with these probabilities were not shown.
        return Unanswerable.LEAST if pool.has_least and pool.propensity else _recorded_signals(pool)
    pool = with_likeness(pool, target.profile, vectors)
    if (obstacle := _obstacle(pool, target.profile)) is not None:
        return obstacle
    candidates = by_relevance(within_depth(pool, target.profile), target.profile)
    if candidates is None:
        return Unanswerable.NO_LEG
    rescored = with_learned(candidates, pool, target.profile.learned, model)
    if rescored is None:
        return Unanswerable.LEARNED
    return _slate(in_order(rescored), pool, target.profile) or Unanswerable.EMPTY


def _obstacle(pool: RecordedPool, profile: Profile) -> Unanswerable | None:
    """The first reason why the candidates cannot be ranked again; None: they can."""
    reasons = {
        Unanswerable.NO_POOL: not pool.item_ids,
        Unanswerable.GROUPED: pool.is_grouped,
        Unanswerable.LEAST: pool.has_least,
        Unanswerable.DIVERSE: not profile.diversity.is_off,
        Unanswerable.REFINED: _refines(profile) and REFINING not in pool.scores,
        Unanswerable.RERANKED: not knows_reranking(pool, profile),
        Unanswerable.SYNONYMS: pool.profile is not None and pool.profile.synonyms != profile.synonyms,
        Unanswerable.SHORT: not knows_candidates(pool, profile),
        Unanswerable.UNSCORED: not knows_scores(pool, profile),
    }
    return next((reason for reason, is_so in reasons.items() if is_so), None)


def _recorded_signals(pool: RecordedPool) -> Mapping[str, float]:
    if not pool.propensity:
        return pool.shown
    candidates = zip(pool.item_ids, pool.propensity, strict=True)
    return {item_id: chance for item_id, chance in candidates if chance} | dict(pool.shown)


def _slate(ranked: list[TargetCandidate], pool: RecordedPool, profile: Profile) -> Mapping[str, float] | Unanswerable:
    """The slate of a ranking under the profile's exploration, with posterior draws by the seed of the search."""
    exploration = profile.exploration
    if exploration.policy is PolicyName.OFF:  # swaps change the order of the items, not the set
        return {candidate.item_id: 1.0 for candidate in ranked[: pool.limit]}
    contenders = _contenders(ranked, pool, profile)
    if contenders is None:
        return Unanswerable.NO_ELIGIBLE
    probabilities = slate_probabilities(contenders, pool.limit, exploration, np.random.default_rng(pool.seed))
    return {item_id: probability for item_id, probability in probabilities.items() if probability > 0}


def _contenders(ranked: list[TargetCandidate], pool: RecordedPool, profile: Profile) -> list[Ranked] | None:
    """The candidates as the profile's policy sees them; None: the record lacks what the policy needs."""
    exploration, contenders = profile.exploration, []
    for candidate in ranked:
        contender = candidate.contender
        if exploration.policy is PolicyName.THOMPSON_SLOTS:
            eligible = _is_eligible(candidate.position, pool, exploration)
            if eligible is None:
                return None
            contender = replace(contender, eligible=eligible)
        if not _has_uncertainty(candidate, pool, exploration):
            return None
        contenders.append(contender)
    return contenders


def _has_uncertainty(candidate: TargetCandidate, pool: RecordedPool, exploration: Exploration) -> bool:
    """True if the record has the candidate's uncertainty: the model's, or its uses without a model."""
    is_thompson = exploration.policy is PolicyName.THOMPSON_SLOTS
    if candidate.contender.reward_mean is None or (is_thompson and exploration.posterior is PosteriorKind.BETA):
        return bool(pool.uses) and pool.uses[candidate.position] is not None
    return bool(pool.effective_sample_size)


def _is_eligible(position: int, pool: RecordedPool, exploration: Exploration) -> bool | None:
    """True if the profile may explore the candidate; None: its age is unknown.

    The record has only whether the candidate met the bounds of the recorded profile, for uses and for age.
    """
    eligible, uses = (column[position] if column else None for column in (pool.eligible, pool.uses))
    recorded = None if pool.profile is None else pool.profile.exploration
    if eligible is None or uses is None:
        return None
    if uses < exploration.fewer_uses_than:
        return True
    if exploration.younger_than_days == 0:
        return False
    if recorded is None:
        return None
    if eligible and uses >= recorded.fewer_uses_than and exploration.younger_than_days >= recorded.younger_than_days:
        return True
    if not eligible and exploration.younger_than_days <= recorded.younger_than_days:
        return False
    has_same_bounds = (exploration.fewer_uses_than, exploration.younger_than_days) == (
        recorded.fewer_uses_than,
        recorded.younger_than_days,
    )
    return bool(eligible) if has_same_bounds else None
