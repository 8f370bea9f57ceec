"""How scores come together: similarity with what was learned, and what has never been tried. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from retrieval.apps.metaphors.metaphor import Metaphor
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.hit import Contribution, Explanation

Scored = tuple[Metaphor, float]
"""A metaphor with its score."""

SIMILARITY_SHARE, LEARNED_SHARE = 0.4, 0.6
"""Of similarity and of the expected reward in a score, once a model is trained."""

UNTRIED_SHARE = 0.9
"""What a candidate's similarity counts as long as it has not proved itself."""

SPREAD_RANK = 5
"""The rank whose distance from the first tells how sure a ranking is."""


def combine_scores(
    first: Iterable[Scored],
    second: Iterable[Scored],
    weights: tuple[float, float] = (SIMILARITY_SHARE, LEARNED_SHARE),
) -> list[Scored]:
    """Both rankings as one: weight × score, added up by the metaphor's id, best first; equal ones by id.

    What a ranking leaves out has 0 there. With scores from 0 to 1 and weights that add up to 1, the sum is from 0 to 1
    too. ``retrieve`` has these scores from the collection's profile; this is the same sum for rankings of one's own.
    Raises ``InvalidRequestError`` for other than two weights, each finite and at least 0.
    """
    if not isinstance(weights, list | tuple) or len(weights) != 2 or not all(map(_is_weight, weights)):
        raise InvalidRequestError(f"weights are {weights!r:.80}; give two numbers of at least 0, such as (0.4, 0.6)")
    if not isinstance(first, Iterable) or not isinstance(second, Iterable):
        raise InvalidRequestError("two rankings are combined: give lists of (metaphor, score), such as were retrieved")
    metaphors: dict[str, Metaphor] = {}
    totals: dict[str, float] = {}
    for ranking, weight in zip((first, second), weights, strict=True):
        for metaphor, score in ranking:
            metaphors.setdefault(metaphor.id, metaphor)
            totals[metaphor.id] = totals.get(metaphor.id, 0.0) + weight * score
    return ranked((metaphors[key], total) for key, total in totals.items())


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def ranked(scored: Iterable[Scored]) -> list[Scored]:
    """Best first; equal scores are ordered by id."""
    return sorted(scored, key=lambda one: (-one[1], one[0].id))


def untried_score(similarity: float) -> float:
    """The score of a candidate: 0.9 × its similarity (0 to 1)."""
    return UNTRIED_SHARE * similarity


def untried_explanation(similarity: float, rank: int) -> Explanation:
    """Why a candidate has its score; ``rank`` is its place among the candidates, from 1."""
    part = Contribution("generated", rank, similarity, UNTRIED_SHARE, untried_score(similarity))
    return Explanation("generated", (part,))


def spread(scores: Sequence[float]) -> float:
    """The first score minus the fifth, or the last where there are fewer; 0 without any. Best first."""
    return scores[0] - scores[min(SPREAD_RANK, len(scores)) - 1] if scores else 0.0
