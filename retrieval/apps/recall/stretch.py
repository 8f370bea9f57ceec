"""Which event times a search is bound to, or prefers. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.time_expressions import TimeExpression
from retrieval.domain.time_phrases import Certainty

TimeRange = tuple[datetime | None, datetime | None]
"""From the first moment on, and before the second; None: without an end on that side."""

TOLD_LATER = timedelta(days=1)
"""How long after a date something is still told of it: measured, see decision 0020."""


class TimeExpressions(StrEnum):
    """What becomes of "last week" and "in May 2023" in a question."""

    FILTER = "filter"
    """Nothing else is found."""
    PREFER = "prefer"
    """What happened then ranks higher, what may have been told of it since a little higher; nothing is left out."""
    OFF = "off"
    """They are words like any others."""


def checked_time_range(time_range: object) -> tuple[datetime, datetime] | None:
    """Start and end, both with a time zone. Raises ``InvalidRequestError``, saying what to change."""
    if time_range is None:
        return None
    if not isinstance(time_range, tuple | list) or len(time_range) != 2:
        raise InvalidRequestError("time_range is two times: the first moment, and the first that is outside")
    start, end = time_range
    for moment in (start, end):
        if not isinstance(moment, datetime) or moment.utcoffset() is None:
            raise InvalidRequestError(
                f"time_range holds {moment!r:.80}; give times with a zone, such as datetime(2026, 5, 1, tzinfo=UTC)"
            )
    if start == end:
        raise InvalidRequestError(
            f"time_range starts and ends at {start.isoformat()}, and so holds no moment; give a later end"
        )
    if start > end:
        raise InvalidRequestError(f"time_range starts at {start.isoformat()} and ends at {end.isoformat()}; swap them")
    return start, end


def preferred_ranges(time: TimeExpression, now: datetime) -> tuple[TimeRange, ...]:
    """When what is meant happened, and after it when else it may have been told; none for what is too vague.

    What is counted back from now ("last week") may have been told until now, a date ("in May 2023") until the day
    after. Sources of conversations date what is told, not what is told about.
    """
    if time.certainty is Certainty.VAGUE:
        return ()
    if time.end is None:
        return ((time.start, None),)
    told_until = (max(time.end, now) if time.certainty is Certainty.RELATIVE else time.end) + TOLD_LATER
    return (time.start, time.end), (time.end, told_until)


def within(time_range: TimeRange) -> dict[str, Any]:
    """The filter on event times; an item without one is outside."""
    start, end = time_range
    bounds = {"gte": start, "lt": end}
    return {"occurred_at": {operator: moment for operator, moment in bounds.items() if moment is not None}}
