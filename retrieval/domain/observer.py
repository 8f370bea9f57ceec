"""Observers of a platform: they receive figures of each event after it, and never the questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from retrieval.domain.learning.feedback import FeedbackReport
from retrieval.domain.search.hit import SearchResult


class Observer(Protocol):
    """Called on the event loop, beside every search: it must be quick, and must not raise."""

    def searched(self, results: Sequence[SearchResult]) -> None:
        """Receive the answered searches of one call; their timings are those of the call."""

    def rewarded(self, report: FeedbackReport) -> None:
        """Receive the report on events of feedback."""

    def recorded(self, searches: int) -> None:
        """Receive the number of searches that were recorded."""

    def unrecorded(self, reason: str) -> None:
        """Receive the reason why a search was not recorded; ``retrieval.engine.recorder`` lists the reasons."""
