"""An answer: a list of metaphors with their scores that also says how it came about."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from retrieval.apps.metaphors.metrics import RetrievalMetrics
from retrieval.apps.metaphors.problem import Problem
from retrieval.apps.metaphors.scores import Scored
from retrieval.domain.hit import Explanation


class Retrieved(list[Scored]):
    """Pairs of metaphor and score, best first."""

    problem: Problem
    """What was asked."""
    retrieval_id: UUID | None
    """Under which it is recorded, for outcomes, figures and replay; None: it is not."""
    metrics: RetrievalMetrics
    explanations: tuple[Explanation, ...]
    """How each got its score, in the same order."""
    notes: tuple[str, ...]
    """What the caller should know, such as why nothing was generated."""
    why_generated: str | None
    """Why generation was called for; None: it was not."""
    collection: str = ""
    """Of which corpus, by its collection; empty: not said."""

    def __init__(
        self,
        pairs: Iterable[Scored] = (),
        *,
        problem: Problem,
        retrieval_id: UUID | None = None,
        metrics: RetrievalMetrics = RetrievalMetrics(),  # noqa: B008 - a frozen value
        explanations: Iterable[Explanation] = (),
        notes: Iterable[str] = (),
        why_generated: str | None = None,
    ) -> None:
        super().__init__(pairs)
        self.problem = problem
        self.retrieval_id = retrieval_id
        self.metrics = metrics
        self.explanations = tuple(explanations)
        self.notes = tuple(notes)
        self.why_generated = why_generated
