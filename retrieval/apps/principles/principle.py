"""A principle: a lesson that an agent is given, with what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

CANDIDATE, ACTIVE = "candidate", "active"
"""A candidate has to prove itself; the others are given wherever their score suffices."""

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principle:
    """A principle as it is stored, with the statistics of its use."""

    id: str
    title: str
    body: str = ""
    tags: tuple[str, ...] = ()
    status: str = ACTIVE
    added_by: str = ""
    """The author, as given when it was added; empty: nobody was named."""
    created_at: datetime = field(default=_EPOCH)
    use_count: int = 0
    """Verdicts, at least 0."""
    success_count: int = 0
    """Verdicts of at least one half, 0 to ``use_count``."""
    last_used_at: datetime | None = None
    """The time of the last verdict; None: never judged."""

    @property
    def success_rate(self) -> float | None:
        """The share of good verdicts, 0 to 1; None: there are none."""
        return self.success_count / self.use_count if self.use_count else None

    @property
    def score(self) -> float:
        """The mean of Beta(successes + 1, failures + 1), above 0 and below 1; one half while there are no verdicts."""
        return (self.success_count + 1) / (self.use_count + 2)
