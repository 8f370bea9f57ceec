"""When a query says that something was: "yesterday", "last week", "in May 2023", "since June". Pure.

What it says is read in English, from the moment ``now`` and in its time zone, and gives a half-open stretch of time.
Weeks begin on Monday, seasons are those of the northern half of the world, and a month or a day without a year is the
latest that has begun. Of a date in numbers, "5/8/2023" or "5-8-2023", the first is the month, 8 May being "8.5.2023":
with dots the day comes first, and so it does where the first number is no month ("25/8/2023"). "2023-05", "2023/5/8"
and "5/2023" have one meaning. Numbers with fewer parts or a short year ("5/3", "5/8/23", "1984") are no dates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.time_phrases import Certainty, Phrase, phrases
from retrieval.domain.time_relations import paired, related
from retrieval.domain.time_words import plain

LONGEST_QUERY = 2000
"""Characters of a query; a longer one is a pasted text, which speaks of many times and asks for none."""

_YEARS = (1000, 9000)
"""Every zone of the world can say a time between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeExpression:
    """A stretch of time that a query speaks of."""

    text: str
    """The words, as they stand in the query."""
    certainty: Certainty
    start: datetime | None
    """The first moment; None: any before ``end``. In the time zone of ``now``, as ``end`` is."""
    end: datetime | None
    """The first moment after it; None: any from ``start`` on."""

    @property
    def is_soft(self) -> bool:
        """Whether it only hints at a time."""
        return self.certainty is Certainty.VAGUE


def time_expressions(query: str, now: datetime) -> list[TimeExpression]:
    """Every expression of the query, in its order; none of a query longer than ``LONGEST_QUERY``.

    Raises ``InvalidRequestError`` if ``now`` has no time zone.
    """
    if now.tzinfo is None or now.utcoffset() is None:
        raise InvalidRequestError(f"now is {now.isoformat()} without a time zone; give one, such as datetime.now(UTC)")
    if len(query) > LONGEST_QUERY:
        return []
    said = plain(query)
    return list(_read(query, said, phrases(said, now)))


def time_expression(query: str, now: datetime) -> TimeExpression | None:
    """What the query says altogether; None: nothing.

    The most definite expressions count ("last week, as of 6 November" is about November). Of several closed stretches
    it is from the first's start to the last's end; what is open on a side, such as "since May", bounds the others.
    """
    found = time_expressions(query, now)
    best = max((one.certainty for one in found), default=None)
    chosen = [one for one in found if one.certainty is best]
    return _together(chosen) if chosen else None


def _read(query: str, said: str, found: Sequence[Phrase]) -> Iterator[TimeExpression]:
    """The phrases with what stands around them: "between", "since", "the week before"."""
    place = 0
    while place < len(found):
        one = found[place]
        following = found[place + 1] if place + 1 < len(found) else None
        try:
            pair = None if following is None else paired(said, one, following)
            whole = pair or related(said, one)
        except (ValueError, OverflowError):  # what no calendar has, such as 9999 years before 2020, is no time
            pair = whole = None
        place += 1 if pair is None else 2
        if whole is not None and _is_usable(whole.start_time, whole.end_time):
            yield TimeExpression(
                text=query[whole.begin : whole.end].strip(),
                certainty=whole.certainty,
                start=whole.start_time,
                end=whole.end_time,
            )


def _is_usable(start: datetime | None, end: datetime | None) -> bool:
    if any(one is not None and not _YEARS[0] <= one.year <= _YEARS[1] for one in (start, end)):
        return False
    return start < end if start is not None and end is not None else (start or end) is not None


def _together(chosen: Sequence[TimeExpression]) -> TimeExpression | None:
    closed = [(one.start, one.end) for one in chosen if one.start is not None and one.end is not None]
    starts = [one.start for one in chosen if one.start is not None and one.end is None]
    ends = [one.end for one in chosen if one.end is not None and one.start is None]
    if closed:
        starts.append(min(start for start, _ in closed))
        ends.append(max(end for _, end in closed))
    start, end = max(starts, default=None), min(ends, default=None)
    if not _is_usable(start, end):
        return None
    text = ", ".join(dict.fromkeys(one.text for one in chosen))
    return TimeExpression(text=text, certainty=chosen[0].certainty, start=start, end=end)
