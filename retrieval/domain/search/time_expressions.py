"""The expressions of time in a query: "yesterday", "since June", "between May and July". Pure.

An expression is read as English, relative to the moment ``now`` and in its time zone, and gives a half-open period.
Weeks begin on Monday, seasons are those of the northern hemisphere, and a month or a day without a year is the latest
that has begun. In a date in numbers, "5/8/2023" or "5-8-2023", the month comes first. With dots the day comes first
("8.5.2023" is 8 May), and so it does where the first number cannot be a month ("25/8/2023"). "2023-05", "2023/5/8" and
"5/2023" have one meaning. Numbers with fewer parts or a short year ("5/3", "5/8/23", "1984") are not dates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.time_phrases import (
    COUNT,
    ORDINALS,
    UNIT,
    WEEKDAY,
    WEEKDAYS,
    Certainty,
    Phrase,
    Span,
    Unit,
    counted,
    days,
    lead,
    moved,
    part,
    phrases,
    plain,
    unit_of,
    weekday_after,
    weekday_before,
)

_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)
_SATURDAY, _SUNDAY = 5, 6
_REACH = 60
"""Characters before a phrase that can belong to it."""

_JOIN = re.compile(r"\s*(?:(?P<weak>and)|to|until|till|through|thru|[-–—])\s*(?:the\s+)?")
_BETWEEN = lead(r"between|from")
_IN = lead(r"(?:in|during|throughout|within|around|of|from)(?: the)?(?: (?:year|month)(?: of)?)?")
_PART = lead(
    r"(?P<early>early(?: in)?|(?:the )?(?:beginning|start) of)|(?P<middle>mid-?|(?:the )?middle of)|"
    r"(?P<late>late(?: in)?|(?:the )?end of)|(?:the )?(?P<half>first|second) half of|"
    rf"(?:the )?(?P<nth>{'|'.join(ORDINALS)}|last) (?P<unit>week|weekend) (?:of|in)|"
    r"(?:the )?(?P<whole>week|weekend) of"
)
_BESIDE = lead(
    rf"(?:the )?(?:{COUNT} )?(?:{WEEKDAY}|{UNIT}) (?P<side>before|preceding|prior to|after|following)(?: the)?"
)
_SIDE = lead(r"(?P<side>since|after|following|before|prior to|until|till|up to|by|as of)(?: the)?")

_THIRDS = {"early": (0.0, 1 / 3), "middle": (1 / 3, 2 / 3), "late": (2 / 3, 1.0)}
_BEFORE = frozenset({"before", "preceding", "prior to"})


@dataclass(frozen=True, slots=True)
class TimedText:
    """Words at a place of a text, and the time that they name; None: open on that side."""

    begin: int
    end: int
    start_time: datetime | None
    end_time: datetime | None
    certainty: Certainty


def paired(text: str, first: Phrase, second: Phrase) -> TimedText | None:
    """Joins two phrases by "from ... to", "between ... and" or a dash, from first to second; ``text`` is ``plain``."""
    join = _JOIN.fullmatch(text[first.end : second.begin])
    between = _BETWEEN.search(text, max(0, first.begin - _REACH), first.begin)
    if join is None or (join["weak"] and not between):
        return None
    start, end = _in_one_year(first, second), second.span.end
    if start is None or start >= end:
        return None
    begin = between.start() if between else first.begin
    return TimedText(begin, second.end, start, end, max(first.certainty, second.certainty))


def related(text: str, phrase: Phrase) -> TimedText | None:
    """The phrase with the words right before it; None if it names no time there, as "may" alone does not."""
    whole = _with_part(text, phrase)
    before = max(0, whole.begin - _REACH), whole.begin
    if (beside := _BESIDE.search(text, *before)) and not phrase.side:
        return _timed_text(replace(whole, begin=beside.start(), span=_beside(whole.span, beside)))
    if side := _SIDE.search(text, *before):
        if side["side"] == "by" and phrase.needs_lead:  # it may be a person: "a book by May"
            return None
        return _timed_text(replace(whole, begin=side.start()), side["side"])
    if phrase.needs_lead and whole is phrase and not _IN.search(text, *before):
        return None
    return _timed_text(whole, phrase.side)


def _timed_text(phrase: Phrase, side: str = "") -> TimedText:
    start, end = phrase.span.start, phrase.span.end
    bounds: dict[str, tuple[datetime | None, datetime | None]] = {
        "": (start, end),
        "since": (start, None),
        "after": (end, None),
        "following": (end, None),
        "before": (None, start),
        "prior to": (None, start),
    }
    return TimedText(phrase.begin, phrase.end, *bounds.get(side, (None, end)), phrase.certainty)


def _in_one_year(first: Phrase, second: Phrase) -> datetime | None:
    """The first's start; without a year of its own it is in the year that ends with the second."""
    start, latest = first.span.start, second.span.start
    if first.has_year:
        return start
    try:
        same_year = start.replace(year=latest.year)
        return same_year if same_year <= latest else start.replace(year=latest.year - 1)
    except ValueError:
        return None


def _with_part(text: str, phrase: Phrase) -> Phrase:
    """The phrase, limited to the part that the words before it name: "late", "the first week of"."""
    match = _PART.search(text, max(0, phrase.begin - _REACH), phrase.begin)
    if match is None or phrase.certainty is Certainty.VAGUE:
        return phrase
    return replace(phrase, begin=match.start(), span=_part(phrase.span, match))


def _part(span: Span, match: re.Match[str]) -> Span:
    if match["whole"]:
        return unit_of(span.start, Unit(match["whole"]))
    if match["half"]:
        return part(span, 0.0, 0.5) if match["half"] == "first" else part(span, 0.5, 1.0)
    if match["nth"]:
        return _nth(span, match["nth"], Unit(match["unit"]))
    return next(part(span, *share) for name, share in _THIRDS.items() if match[name])


def _nth(span: Span, nth: str, unit: Unit) -> Span:
    """A week, of seven days counted from the start or back from the end, or a weekend, by its Saturday."""
    if nth == "last":
        return (
            days(weekday_before(span.end, _SATURDAY), 2) if unit is Unit.WEEKEND else Span(span.end - _WEEK, span.end)
        )
    first = weekday_after(span.start - _DAY, _SATURDAY) if unit is Unit.WEEKEND else span.start
    return days(first + ORDINALS.index(nth) * _WEEK, 2 if unit is Unit.WEEKEND else 7)


def _beside(span: Span, match: re.Match[str]) -> Span:
    """The unit or the weekday right before or after the span; "two weeks before" is the second week before it."""
    is_before = match["side"] in _BEFORE
    edge = span.start if is_before else span.end
    if match["weekday"]:
        number = WEEKDAYS.index(match["weekday"])
        return days(weekday_before(edge, number) if is_before else weekday_after(edge - _DAY, number))
    unit, count = Unit(match["unit"]), counted(match["count"] or "one")[1]
    if unit is Unit.WEEKEND:
        saturday = weekday_before(edge, _SUNDAY) - _DAY if is_before else weekday_after(edge - _DAY, _SATURDAY)
        return days(saturday, 2)
    if count > 1:
        return unit_of(moved(edge, unit, -count if is_before else count), unit)
    return Span(moved(edge, unit, -1), edge) if is_before else Span(edge, moved(edge, unit, 1))


LONGEST_QUERY = 2000
"""Characters of a query; a longer one is a pasted text, whose times are not conditions."""

_YEARS = (1000, 9000)
"""Every time zone has the times between these years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeExpression:
    """A period that a query names."""

    text: str
    """The words, as they stand in the query."""
    certainty: Certainty
    start: datetime | None
    """The first moment; None: any before ``end``. In the time zone of ``now``, as ``end`` is."""
    end: datetime | None
    """The first moment after it; None: any from ``start`` on."""

    @property
    def is_soft(self) -> bool:
        """True if it only hints at a time."""
        return self.certainty is Certainty.VAGUE


def time_expressions(query: str, now: datetime) -> list[TimeExpression]:
    """Every expression of the query, in its order; none of a query longer than ``LONGEST_QUERY``.

    Raises ``InvalidRequestError`` if ``now`` has no time zone.
    """
    if now.tzinfo is None or now.utcoffset() is None:
        raise InvalidRequestError(f"now is {now.isoformat()} without a time zone; give one, such as datetime.now(UTC)")
    if len(query) > LONGEST_QUERY:
        return []
    text = plain(query)
    return list(_read_phrases(query, text, phrases(text, now)))


def time_expression(query: str, now: datetime) -> TimeExpression | None:
    """The time that the query names as a whole; None: no time.

    The most definite expressions count ("last week, as of 6 November" is about November). Several closed periods
    give one from the first's start to the last's end; an open one, such as "since May", bounds the others.
    """
    expressions = time_expressions(query, now)
    best = max((expression.certainty for expression in expressions), default=None)
    chosen = [expression for expression in expressions if expression.certainty is best]
    return _together(chosen) if chosen else None


def _read_phrases(query: str, text: str, in_order: Sequence[Phrase]) -> Iterator[TimeExpression]:
    """The phrases with the words around them: "between", "since", "the week before"."""
    place = 0
    while place < len(in_order):
        phrase = in_order[place]
        following = in_order[place + 1] if place + 1 < len(in_order) else None
        try:
            pair = None if following is None else paired(text, phrase, following)
            whole = pair or related(text, phrase)
        except (ValueError, OverflowError):  # dates outside the calendar, such as 9999 years before 2020, are not times
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
    if any(moment is not None and not _YEARS[0] <= moment.year <= _YEARS[1] for moment in (start, end)):
        return False
    return start < end if start is not None and end is not None else (start or end) is not None


def _together(chosen: Sequence[TimeExpression]) -> TimeExpression | None:
    closed = [(phrase.start, phrase.end) for phrase in chosen if phrase.start is not None and phrase.end is not None]
    starts = [phrase.start for phrase in chosen if phrase.start is not None and phrase.end is None]
    ends = [phrase.end for phrase in chosen if phrase.end is not None and phrase.start is None]
    if closed:
        starts.append(min(start for start, _ in closed))
        ends.append(max(end for _, end in closed))
    start, end = max(starts, default=None), min(ends, default=None)
    if not _is_usable(start, end):
        return None
    text = ", ".join(dict.fromkeys(phrase.text for phrase in chosen))
    return TimeExpression(text=text, certainty=chosen[0].certainty, start=start, end=end)
