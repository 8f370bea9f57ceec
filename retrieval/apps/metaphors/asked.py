"""What a retrieval is asked, checked, and what that means for a search. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from retrieval.apps.metaphors.failures import Preference
from retrieval.apps.metaphors.metaphor_item import CONCRETENESS, KIND, RICHNESS
from retrieval.apps.metaphors.problem import Problem
from retrieval.domain.context import MAX_NAME_LENGTH, Context
from retrieval.domain.embedding import Vector
from retrieval.domain.profile import Profile
from retrieval.domain.signals.attribute_value import AttributeValue
from retrieval.domain.signals.signal import Signal
from retrieval.domain.signals.vector_similarity import VectorSimilarity

PREFERENCE_SHARE = 0.3
"""Of what is preferred in the score by relevance; the rest is similarity's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A retrieval."""

    problem: Problem
    limit: int
    exclude: tuple[str, ...] = ()
    why: str = ""
    """Why the caller comes back, in words."""
    preference: Preference = field(default_factory=Preference)
    backtracks: int = 0
    moved: Vector | None = None
    """The question's vector, moved away from what failed; None: as it is."""
    about: Vector | None = None
    """The question's vector as it was, which tells the problem's cluster, where it was moved."""
    notes: tuple[str, ...] = ()
    until: float | None = None
    """When nobody waits for suggestions any more, by the retriever's clock; None: there is no such time."""

    @property
    def vector(self) -> object:
        """What to search with; None: the embedded description."""
        return self.problem.embedding if self.moved is None else self.moved

    def where(self, status: str) -> dict[str, Any]:
        """The filter: metaphors of that status, none of those excluded."""
        wanted: dict[str, Any] = {"kind": KIND, "status": status}
        return wanted | {"not": {"item_id": list(self.exclude)}} if self.exclude else wanted

    def profile(self, usual: Profile) -> Profile:
        """The corpus's profile, with what is preferred in it."""
        wanted = preferred(self.preference)
        if not wanted:
            return usual
        share = PREFERENCE_SHARE / len(wanted)
        signals: list[Signal] = [VectorSimilarity(weight=1 - PREFERENCE_SHARE)]
        return replace(usual, signals=(*signals, *(AttributeValue(weight=share, attribute=name) for name in wanted)))

    def context(self, *, actor: str = "", is_generated: bool = False) -> Context:
        """The situation: what is learned by, and what a record says of it. All about one problem is a session."""
        return replace(
            situation_of(self.problem),
            actor=actor,
            session=session_of(self.problem),
            backtracks=self.backtracks,
            generated=is_generated,
        )


def preferred(preference: Preference) -> list[str]:
    """The attributes that are preferred."""
    chosen = {CONCRETENESS: preference.concrete, RICHNESS: preference.rich}
    return [name for name, is_wanted in chosen.items() if is_wanted]


def situation_of(problem: Problem) -> Context:
    """What is learned by: the problem's domain and complexity."""
    return Context(domain=problem.domain, complexity=problem.complexity)


def session_of(problem: Problem) -> str:
    """The problem's id; empty where it is too long for a session's name."""
    return problem.id if len(problem.id) <= MAX_NAME_LENGTH else ""
