"""Fusion: several legs' rankings become one, and every score keeps its parts. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import compress, count, repeat
from operator import add, itemgetter, neg
from typing import Any, NamedTuple

from retrieval.domain.search.diversity import REFINING, PoolVectors, likenesses
from retrieval.domain.search.hit import Contribution
from retrieval.domain.search.profile import Fusion, FusionKind, Profile, leg_of


class Candidate(NamedTuple):
    """An item that a leg returned. A search makes hundreds, so it is the cheapest kind of value."""

    leg: str
    item_id: str
    rank: int
    """The rank, from 1, among the candidates whose score in the leg is known."""
    score: float
    """The leg's own score, higher is better."""


class Fused(NamedTuple):
    """A candidate after fusion."""

    item_id: str
    score: float
    contributions: tuple[Contribution, ...]


_ITEM_ID, _RANK, _SCORE = itemgetter(1), itemgetter(2), itemgetter(3)

candidate_of: Callable[[tuple[Any, ...]], Candidate] = partial(tuple.__new__, Candidate)
"""Returns the candidate with these values, without a line of Python."""

Rankings = Mapping[str, Sequence[Candidate]]
"""Candidates by leg, best first."""

LegWeights = Mapping[str, float]
Scores = Mapping[str, Sequence[float | None]]
Ranks = Mapping[str, Sequence[int | None]]
"""Numbers by leg: one, or one an item; None where it is not known."""

_Valued = tuple[str, Sequence[Candidate], list[float]]


def fuse(
    rankings: Rankings,
    weights: LegWeights,
    fusion: Fusion,
    *,
    limit: int | None = None,
    explained: int | None = None,
) -> list[Fused]:
    """Merge the rankings, best first; equal scores are ordered by item id.

    ``limit``: the most candidates to return; ``explained``: how many need the parts of their scores (None: all).

    RRF: score(d) = Σ over legs of weight / (k + rank of d in the leg) (Cormack, Clarke, Büttcher, SIGIR 2009).
    Weighted sum: score(d) = Σ over legs of weight / Σ weights × max(s, 0) / the leg's highest s, its own score.
    Union: score(d) = Σ over signals of weight × value. An item gets nothing from a ranking that lacks it. With a
    ranking by likeness (``refined``), its items have (1 − share) × that score + share × likeness.
    """
    valued = _value_candidates(rankings, weights, fusion)
    best = _sum_scores(valued)[:limit]
    # Only the candidates that need it are explained: explaining costs more than selecting them.
    parts: dict[str, list[Contribution]] = {item_id: [] for item_id, _ in best[:explained]}
    for leg, candidates, values in valued:
        weight, has_parts = weights.get(leg, 0.0), map(parts.__contains__, map(_ITEM_ID, candidates))
        for (_, item_id, rank, score), value in compress(zip(candidates, values, strict=True), has_parts):
            parts[item_id].append(Contribution(leg, rank, score, weight, value))
    return [Fused(item_id, score, tuple(parts.get(item_id, ()))) for item_id, score in best]


def fused_ids(rankings: Rankings, weights: LegWeights, fusion: Fusion) -> list[str]:
    """The item ids in the order of ``fuse``, several times as fast: for rankings that need no explanation."""
    return [item_id for item_id, _ in _sum_scores(_value_candidates(rankings, weights, fusion))]


def refined(
    rankings: Rankings, weights: LegWeights, fusion: Fusion, depth: int, vectors: PoolVectors
) -> dict[str, list[Candidate]]:
    """The rankings, and after them that of the candidates with a vector by their likeness to the best of these, if any.

    The pool whose mean counts is the first ``depth`` of each ranking, so that a larger page changes no score.
    """
    lists = {leg: list(candidates) for leg, candidates in rankings.items()}
    row_of = vectors.row_of
    own = [item_id for item_id in fused_ids(rankings, weights, fusion) if item_id in row_of]
    pool = {candidate.item_id for candidates in rankings.values() for candidate in candidates[:depth]}.intersection(own)
    if not pool:
        return lists
    values = likenesses(vectors.rows, [row_of[item_id] for item_id in pool], row_of[own[0]])
    if not values:
        return lists
    opposites, item_ids = zip(*sorted((-values[row_of[item_id]], item_id) for item_id in own), strict=True)
    alike = map(candidate_of, zip(repeat(REFINING), item_ids, count(1), map(neg, opposites), strict=False))
    return {**lists, REFINING: list(alike)}


def scaled_parts(fused: Fused, total: float) -> tuple[Contribution, ...]:
    """The contributions to a candidate's score, in the same proportions, so that they add up to the total."""
    if fused.score > 0:
        return tuple(part._replace(value=part.value / fused.score * total) for part in fused.contributions)
    return tuple(part._replace(value=total / len(fused.contributions)) for part in fused.contributions)


def _value_candidates(rankings: Rankings, weights: LegWeights, fusion: Fusion) -> list[_Valued]:
    """Each leg's candidates with their parts of the score."""
    legs: list[_Valued] = []
    for leg, part in _shares(rankings, weights, fusion).items():
        candidates = rankings[leg]
        scores = list(map(_SCORE, candidates))
        legs.append((leg, candidates, _parts(fusion, part, scores, map(_RANK, candidates), best_of(scores))))
    alike = rankings.get(REFINING)
    if alike is None:
        return legs
    share, known = weights[REFINING], set(map(_ITEM_ID, alike))
    reduced = [
        (leg, candidates, _reduce(map(_ITEM_ID, candidates), parts, share, known)) for leg, candidates, parts in legs
    ]
    return [*reduced, (REFINING, alike, [share * likeness.score for likeness in alike])]


def _reduce(
    items: Iterable[Hashable], values: Sequence[float], share: float, known: Container[Hashable]
) -> list[float]:
    """The values, reduced for known items by the share of the score that likeness has."""
    return [(1 - share) * value if item in known else value for item, value in zip(items, values, strict=True)]


def _shares(legs: Iterable[str], weights: LegWeights, fusion: Fusion) -> dict[str, float]:
    """The weight of each leg; in a weighted sum, its share of all weights.

    The legs are in the order of their names, in which their parts are added up: a profile that was stored has another
    order than the caller's, and rounding must order equal scores alike.
    """
    own = {leg: weights.get(leg, 0.0) for leg in sorted(legs) if leg != REFINING}
    total = math.fsum(own.values()) if fusion.kind is FusionKind.WEIGHTED_SUM else 1.0
    return {leg: weight / total if total else 0.0 for leg, weight in own.items()}


def _sum_scores(valued: Sequence[_Valued]) -> list[tuple[str, float]]:
    """Each item with its score, best first; equal scores are ordered by item id."""
    scores: dict[str, float] = {}
    known = scores.get
    for _, candidates, values in valued:  # map and zip, because there are hundreds of candidates
        item_ids = list(map(_ITEM_ID, candidates))
        scores.update(zip(item_ids, map(add, map(known, item_ids, repeat(0.0)), values), strict=True))
    are_apart = len(set(scores.values())) == len(scores)
    order = sorted(scores if are_apart else sorted(scores), key=scores.__getitem__, reverse=True)
    return list(zip(order, map(scores.__getitem__, order), strict=True))


def _parts(
    fusion: Fusion, share: float, scores: Iterable[float | None], ranks: Iterable[int | None], best: float
) -> list[float]:
    """The items' parts of their scores from one leg; None: the leg does not have the item, which gets 0."""
    if fusion.kind is FusionKind.RRF:
        return [share / (fusion.k + rank) if rank else 0.0 for rank in ranks]
    if fusion.kind is FusionKind.UNION:
        return [share * score if score is not None else 0.0 for score in scores]
    scale = share / best if best > 0 else 0.0
    return [scale * score if score is not None and score > 0 else 0.0 for score in scores]


def best_of(scores: Sequence[float]) -> float:
    """The score of a leg that a weighted sum takes as 1; 0 where there is none."""
    return max(scores, default=0.0)


def fused_again(
    legs: Scores, ranks: Ranks, best: Mapping[str, float], weights: LegWeights, fusion: Fusion
) -> list[float]:
    """The scores that ``fuse`` gives, from each leg's raw scores, ranks and best score.

    ``legs`` and ``ranks``: by leg, one value an item; None where it is not known. One leg alone gives its own scores.
    """
    scores = [0.0] * max(map(len, legs.values()), default=0)
    for values in values_again(legs, ranks, best, weights, fusion).values():
        for index, value in enumerate(values):
            scores[index] += value
    return scores


def values_again(
    legs: Scores, ranks: Ranks, best: Mapping[str, float], weights: LegWeights, fusion: Fusion
) -> dict[str, list[float]]:
    """Each leg's part of the scores of ``fused_again``, one value an item; 0 where the leg lacks the item."""
    if len(legs) == 1 and fusion.kind is not FusionKind.UNION:
        return {leg: [raw or 0.0 for raw in scores] for leg, scores in legs.items()}
    shares = _shares(legs, weights, fusion)
    alike = dict(enumerate(legs.get(REFINING, ())))
    known = {index for index, likeness in alike.items() if likeness is not None}
    values: dict[str, list[float]] = {}
    for leg, share in shares.items():
        parts = _parts(fusion, share, legs[leg], ranks.get(leg, ()), best.get(leg, 0.0))
        values[leg] = _reduce(range(len(parts)), parts, weights.get(REFINING, 0.0), known) if known else parts
    if REFINING in weights:
        values[REFINING] = [weights[REFINING] * (likeness or 0.0) for likeness in legs.get(REFINING, ())]
    return values


def on_unit_scale(scores: Sequence[float], bests: Mapping[str, float], profile: Profile) -> list[float]:
    """The scores of candidates from 0 to 1; ``bests``: the best score of each leg that ran, by leg."""
    if profile.signals:
        return shares_of(scores, math.fsum(profile.weights.values()))
    if len(bests) == 1:
        (best,) = bests.values()
        return shares_of(scores, best)
    if profile.fusion.kind is FusionKind.RRF:
        return shares_of(scores, math.fsum(profile.weights_of(bests).values()) / (profile.fusion.k + 1))
    return shares_of(scores, 1.0)


def leg_features_again(legs: Scores, bests: LegWeights) -> dict[str, list[float]]:
    """The scores of candidates by leg, 0 to 1, from recorded raw scores, where None is not known."""
    if len(legs) == 1:
        return {}
    return {leg: shares_of(scores, bests[leg]) for leg, scores in legs.items() if leg_of(leg) == leg != REFINING}


def shares_of(scores: Iterable[float | None], best: float) -> list[float]:
    """Each score's share of the best, 1 at most; an unknown score, or one not above 0, has share 0."""
    if best <= 0:
        return [0.0 for _ in scores]
    return [(1.0 if score > best else score / best) if score is not None and score > 0 else 0.0 for score in scores]
