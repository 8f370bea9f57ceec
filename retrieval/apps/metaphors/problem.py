"""Problems that need a metaphor, searches for one, and checks of their arguments. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from retrieval.apps.metaphors.metaphor import KIND, checked_numbers, checked_text
from retrieval.domain.checks import checked_list, checked_whole, checks_argument_names
from retrieval.domain.errors import InvalidLimitError, InvalidRequestError
from retrieval.domain.items.embedding import Vector
from retrieval.domain.learning.context import MAX_NAME_LENGTH, Context
from retrieval.domain.search.profile import Profile
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
