"""The figures of one retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from retrieval.apps.metaphors.scores import spread


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalMetrics:
    """What is tracked of a retrieval; the view ``analytics_queries`` has the same by its ``retrieval_id``.

    Of an empty answer the view has no scores (NULL) where these are 0.
    """

    retrieval_time_ms: float = 0.0
    """Milliseconds that it took to find and rank the candidates."""
    top_score: float = 0.0
    """The highest score; 0 without any."""
    score_spread: float = 0.0
    """The first score minus the fifth, or the last where there are fewer; 0 without any."""
    generation_triggered: bool = False
    """Whether generation was called for: a model was asked, or candidates that it had suggested were looked at."""
    backtrack_count: int = 0
    """How often the caller came back with this problem."""

    @classmethod
    def of(
        cls, scores: Sequence[float], *, retrieval_time_ms: float, generation_triggered: bool, backtrack_count: int
    ) -> RetrievalMetrics:
        """The figures of an answer with those scores, best first."""
        return cls(
            retrieval_time_ms=retrieval_time_ms,
            top_score=scores[0] if scores else 0.0,
            score_spread=spread(scores),
            generation_triggered=generation_triggered,
            backtrack_count=backtrack_count,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)
