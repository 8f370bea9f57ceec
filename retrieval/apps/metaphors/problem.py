"""Problems that need a metaphor, searches for one, and the ranking of metaphors for a problem. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from retrieval.apps.metaphors.metaphor import CONCRETENESS, KIND, RICHNESS, Metaphor, checked_numbers, checked_text
from retrieval.domain.checks import checked_list, checked_whole, checks_argument_names, is_finite, is_number
from retrieval.domain.errors import InvalidLimitError, InvalidRequestError
from retrieval.domain.items.embedding import Vector
from retrieval.domain.learning.context import MAX_NAME_LENGTH, Context
from retrieval.domain.search.profile import MAX_DEPTH, Fusion, FusionKind, LegName, Profile
from retrieval.domain.search.profile_parts import Combination, Learned, Recording
from retrieval.domain.search.signals import AttributeValue, VectorSimilarity


@checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem. Raises ``InvalidRequestError`` for a missing description, or a complexity outside 0 to 1."""

    id: str
    description: str
    domain: str = ""
    """The subject, such as ``logistics``; empty: unknown. Case and surrounding space are ignored."""
    complexity: float | None = None
    """0 to 1; None: unknown."""
    embedding: tuple[float, ...] | None = None
    """Its vector in the corpus's space; None: it is made from the description."""

    def __post_init__(self) -> None:
        checked_text("a problem's id", self.id, is_needed=True)
        checked_text("a problem's description", self.description, is_needed=True)
        Context(domain=self.domain, complexity=self.complexity)
        object.__setattr__(self, "domain", self.domain.strip().casefold())
        object.__setattr__(self, "embedding", checked_numbers("a problem's embedding", self.embedding))


LIMIT_MAX = 1000
"""The most metaphors that one call returns."""

BATCH_MAX = 1000
"""The most problems in one call."""


def checked_problem(problem: object) -> Problem:
    """The problem. Raises ``InvalidRequestError`` for anything else."""
    if not isinstance(problem, Problem):
        raise InvalidRequestError(f"problem is {problem!r:.80}; give a Problem(id=..., description=...)")
    return problem


def checked_problems(problems: object) -> list[Problem]:
    """The problems. Raises ``InvalidRequestError`` for more than 1000, and for a repeated id."""
    each = checked_list("problems", problems, "[Problem(id=..., description=...)]")
    checked = [checked_problem(problem) for problem in each]
    if len(checked) > BATCH_MAX:
        raise InvalidRequestError(f"there are {len(checked)} problems; at most {BATCH_MAX} in one call")
    if len({problem.id for problem in checked}) < len(checked):
        raise InvalidRequestError("two problems have the same id, by which the answers are returned; give each its own")
    return checked


def checked_limit(limit: object) -> int:
    """A number from 1 to 1000. Raises ``InvalidLimitError`` for anything else."""
    return checked_whole("limit", limit, 1, LIMIT_MAX, error=InvalidLimitError)


PREFERENCE_SHARE = 0.3
"""The share of preferences in the score by relevance; the remaining share is the similarity's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaphorSearch:
    """The arguments of a retrieval."""

    problem: Problem
    limit: int
    exclude: tuple[str, ...] = ()
    why: str = ""
    """The reason why the caller returns with the problem, in words."""
    preferred: tuple[str, ...] = ()
    """The attributes that count beside similarity: ``CONCRETENESS``, ``RICHNESS``."""
    backtracks: int = 0
    moved: Vector | None = None
    """The query's vector, moved away from the failed metaphor; None: not moved."""
    about: Vector | None = None
    """The original vector of a moved query, which determines the problem's cluster."""
    until: float | None = None
    """The time until which the call waits for suggestions, ``time.perf_counter`` seconds; None: no limit."""

    @property
    def vector(self) -> object:
        """The vector to search with; None: the embedded description."""
        return self.problem.embedding if self.moved is None else self.moved

    def where(self, status: str) -> dict[str, Any]:
        """The filter: metaphors of that status, without the excluded ones."""
        where: dict[str, Any] = {"kind": KIND, "status": status}
        return where | {"not": {"item_id": list(self.exclude)}} if self.exclude else where

    def profile(self, default: Profile) -> Profile:
        """The corpus's profile, changed by the preferences."""
        if not self.preferred:
            return default
        share = PREFERENCE_SHARE / len(self.preferred)
        attributes = [AttributeValue(weight=share, attribute=name) for name in self.preferred]
        return replace(default, signals=(VectorSimilarity(weight=1 - PREFERENCE_SHARE), *attributes))

    def context(self, *, actor: str = "", is_generated: bool = False) -> Context:
        """The context of a search, for learning and for its record. The session is the problem."""
        return replace(
            situation_of(self.problem),
            actor=actor,
            session=session_of(self.problem),
            backtracks=self.backtracks,
            generated=is_generated,
        )


def situation_of(problem: Problem) -> Context:
    """The situation to learn by: the problem's domain and complexity."""
    return Context(domain=problem.domain, complexity=problem.complexity)


def session_of(problem: Problem) -> str:
    """The problem's id; empty if it is too long for a session's name."""
    return problem.id if len(problem.id) <= MAX_NAME_LENGTH else ""


Scored = tuple[Metaphor, float]
"""A metaphor with its score."""

SIMILARITY_SHARE, LEARNED_SHARE = 0.4, 0.6
"""The shares of similarity and of the expected reward in a score, once a model is trained."""

UNTRIED_SHARE = 0.9
"""The factor of a candidate's similarity until the candidate has proved itself."""


def combine_scores(
    first: Iterable[Scored],
    second: Iterable[Scored],
    weights: tuple[float, float] = (SIMILARITY_SHARE, LEARNED_SHARE),
) -> list[Scored]:
    """Combine two rankings: the sum of weight × score by the metaphor's id, best first, then by id.

    A metaphor that is missing from a ranking has the score 0 in it. With scores from 0 to 1 and weights that add up to
    1, the sum is from 0 to 1. ``retrieve`` computes the same sum by the collection's profile. Raises
    ``InvalidRequestError`` for other rankings, and unless there are two finite weights of at least 0.
    """
    if (
        not isinstance(weights, list | tuple)
        or len(weights) != 2
        or not all(is_number(weight, 0, sys.float_info.max) for weight in weights)
    ):
        raise InvalidRequestError(f"weights are {weights!r:.80}; give two numbers of at least 0, such as (0.4, 0.6)")
    metaphors: dict[str, Metaphor] = {}
    totals: dict[str, float] = {}
    for ranking, weight in zip((first, second), weights, strict=True):
        for metaphor, score in _checked_ranking(ranking):
            metaphors.setdefault(metaphor.id, metaphor)
            totals[metaphor.id] = totals.get(metaphor.id, 0.0) + weight * score
    scored = [(metaphors[key], total) for key, total in totals.items()]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0].id))


def _checked_ranking(ranking: object) -> list[Scored]:
    pairs = checked_list("rankings", ranking, "the answer of retrieve")
    for pair in pairs:
        is_pair = isinstance(pair, tuple | list) and len(pair) == 2
        if not (is_pair and isinstance(pair[0], Metaphor) and is_finite(pair[1])):
            raise InvalidRequestError(f"a ranking holds {pair!r:.80}; give pairs of (metaphor, score), as of retrieve")
    return pairs


TRUSTED_FROM = 20
"""The verdicts from which a model is used without winning a trial, because a small corpus gets few verdicts."""

METAPHORS_PROFILE = Profile(
    legs={LegName.DENSE.value: 1.0},
    fusion=Fusion(kind=FusionKind.UNION),
    # A metaphor with a distant meaning may still have helped, so all metaphors of a usual corpus are scored.
    depth=MAX_DEPTH,
    signals=(VectorSimilarity(weight=1.0),),
    learned=Learned(combination=Combination.SUM, share=LEARNED_SHARE, trusted_from=TRUSTED_FROM),
    # Replaying an answer needs all its candidates.
    recording=Recording(pool=MAX_DEPTH),
)
"""The cosine until a learned model is in use, then 0.4 × cosine + 0.6 × learned reward."""


AWAY = 0.4
"""The share of the failed metaphor's vector that is subtracted from the query's; see ``benchmarks/metaphors.py``."""

_LEAST_LENGTH = 1e-3


def preferred_after(failure_reason: str) -> tuple[str, ...]:
    """The attributes to prefer after a failure, by the words of its reason, regardless of case.

    "Too abstract" leads to concrete metaphors, "missing concept" to rich ones, any other reason to no preference.
    """
    reason = failure_reason.casefold()
    if "too abstract" in reason:
        return (CONCRETENESS,)
    return (RICHNESS,) if "missing concept" in reason else ()


def away_from(question: Vector, failed: Vector, strength: float = AWAY) -> Vector:
    """The query moved away from the failed vector, both of length 1 and shape (dimensions,): q' = q - strength × f.

    Rocchio's negative feedback (Rocchio 1971), scaled to length 1. If q' is nearly zero, the original query.
    """
    moved = question.astype(np.float64) - strength * failed.astype(np.float64)
    length = float(np.linalg.norm(moved))
    if length < _LEAST_LENGTH:
        return question
    return (moved / length).astype(np.float32)


GENERATE_BELOW = 0.3
"""The top score below which candidates are generated."""

GENERATE_AFTER_BACKTRACKS = 2
"""The number of returns without success from which candidates are generated."""

NO_GOOD_CANDIDATES = "no good candidates"
"""The words of a context that cause candidates to be generated, regardless of case."""


def why_generate(
    top_score: float,
    context: str = "",
    backtracks: int = 0,
    *,
    below: float = GENERATE_BELOW,
    after_backtracks: int = GENERATE_AFTER_BACKTRACKS,
) -> str | None:
    """The reason for generating candidates, in words; None: there is none.

    ``top_score`` is the corpus's best score for the problem, 0 to 1; 0 without a hit.
    """
    if NO_GOOD_CANDIDATES in context.casefold():
        return "the context says that there are no good candidates"
    if backtracks >= after_backtracks:
        return f"{backtracks} backtracks without success"
    if top_score < below:
        return f"the best score is {top_score:.2f}, below {below:g}"
    return None
