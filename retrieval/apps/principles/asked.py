"""What is asked of the principles, said as a filter. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from retrieval.apps.principles.exploration import FEWER_USES_THAN, YOUNGER_THAN
from retrieval.apps.principles.principle import ACTIVE
from retrieval.apps.principles.principle_item import IN_USE, KIND
from retrieval.apps.probation import FAILED_BELOW
from retrieval.domain.errors import InvalidLimitError, InvalidRequestError
from retrieval.domain.moment import fault_of

MOST_FOUND = 1000
"""Principles or traces of one answer."""

TimeRange = tuple[datetime | None, datetime | None]
"""From when on, and until when, both included; None: without bound."""


def checked_count(name: str, count: object) -> int:
    """The number. Raises ``InvalidLimitError`` for anything but a whole number from 1 to 1000."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_FOUND:
        raise InvalidLimitError(f"{name} is {count!r:.80}; it must be 1 to {MOST_FOUND}")
    return count


def checked_words(query: object) -> str | None:
    """The words; None where there are none. Raises ``InvalidRequestError`` for what is no text."""
    if query is not None and not isinstance(query, str):
        raise InvalidRequestError(f"query is {query!r:.80}; it must be a text, or None")
    return query if query and query.strip() else None


def proven(tags: Sequence[str], min_score: object) -> dict[str, Any]:
    """The filter: active principles with at least that score, and any of the tags where some are given.

    Raises ``InvalidRequestError`` for anything but a score from 0 to 1.
    """
    if isinstance(min_score, bool) or not isinstance(min_score, int | float) or not 0 <= min_score <= 1:
        raise InvalidRequestError(f"min_principle_score is {min_score!r:.80}; it must be a number from 0 to 1")
    where: dict[str, Any] = {"kind": KIND, "status": ACTIVE, "verdict_rating": {"gte": float(min_score)}}
    return where | _tagged(tags)


def little_known(tags: Sequence[str], now: datetime) -> dict[str, Any]:
    """The filter: those that ``exploration.is_eligible`` says may be explored, with any of the tags."""
    is_young = {"occurred_at": {"gt": now - YOUNGER_THAN}, "verdict_rating": {"gte": FAILED_BELOW}}
    either = [{"verdict_count": {"lt": FEWER_USES_THAN}}, is_young]
    return {"kind": KIND, "status": list(IN_USE), "or": either} | _tagged(tags)


def _tagged(tags: Sequence[str]) -> dict[str, Any]:
    return {"tags": list(tags)} if tags else {}


def ended(time_range: TimeRange | None, status: str | None) -> dict[str, Any]:
    """The filter of traces. Raises ``InvalidRequestError`` for what is no pair of times, and no word."""
    where: dict[str, Any] = {}
    if time_range is not None:
        if not isinstance(time_range, tuple | list) or len(time_range) != 2:
            raise InvalidRequestError(f"time_range is {time_range!r:.80}; give (start, end), each a time or None")
        bounds = dict(zip(("gte", "lte"), time_range, strict=True))
        for moment in filter(None, bounds.values()):
            if fault := fault_of(moment):
                raise InvalidRequestError(f"time_range has {moment!r:.80}; {fault}")
        where["occurred_at"] = {name: moment for name, moment in bounds.items() if moment is not None}
    if status is not None:
        if not isinstance(status, str):
            raise InvalidRequestError(f"status is {status!r:.80}; it must be a word such as 'success'")
        where["outcome"] = status.strip().casefold()
    return {name: value for name, value in where.items() if value != {}}
