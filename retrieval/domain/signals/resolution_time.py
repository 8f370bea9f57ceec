"""How soon a ticket was resolved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from retrieval.domain.profile_numbers import check_weight
from retrieval.domain.signals.signal import Asked, Facts, Signal, checked_positive
from retrieval.domain.stored_time import stored_time


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionTime(Signal):
    """max(0, 1 - hours / normalization_hours): 1 at once, 0 from there on.

    Raises ``InvalidProfileError`` for ``normalization_hours`` that are not above 0 and ``unknown_hours`` below 0.
    """

    name: ClassVar[str] = "resolution_time"
    reads: ClassVar[frozenset[str]] = frozenset({"attributes"})
    attribute: str = "resolution_time_hours"
    resolved_attribute: str = "resolved_at"
    """When it was resolved, ISO 8601; a resolution that was still to come at the time of the question is not known."""
    normalization_hours: float = 100.0
    unknown_hours: float | None = None
    """What hours that are not known count as, at least 0; None: they are worth 0."""

    def __post_init__(self) -> None:
        Signal.__post_init__(self)
        checked_positive("normalization_hours of signal 'resolution_time'", self.normalization_hours)
        if self.unknown_hours is not None:
            check_weight("unknown_hours of signal 'resolution_time'", self.unknown_hours)

    def value(self, facts: Facts, asked: Asked) -> float:
        """The share, 0 to 1."""
        known = self._known_hours(facts, asked)
        hours = self.unknown_hours if known is None else known
        return 0.0 if hours is None else min(1.0, max(0.0, 1 - hours / self.normalization_hours))

    def _known_hours(self, facts: Facts, asked: Asked) -> float | None:
        hours = facts.attributes.get(self.attribute)
        if isinstance(hours, bool) or not isinstance(hours, int | float) or not math.isfinite(hours):
            return None
        resolved_at = stored_time(facts.attributes.get(self.resolved_attribute))
        return hours if resolved_at is None or resolved_at <= asked.now else None
