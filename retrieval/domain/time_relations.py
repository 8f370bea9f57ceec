"""What stands around a phrase that names a time: "since", "the week before", "late", "between ... and". Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from retrieval.domain.time_phrases import Certainty, Phrase
from retrieval.domain.time_spans import Span, Unit, days, moved, part, unit_of, weekday_after, weekday_before
from retrieval.domain.time_words import COUNT, ORDINALS, UNIT, WEEKDAY, WEEKDAYS, counted, lead

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
class Said:
    """Words at a place of a text, and the time that they speak of; None: without an end on that side."""

    begin: int
    end: int
    start_time: datetime | None
    end_time: datetime | None
    certainty: Certainty


def paired(said: str, first: Phrase, second: Phrase) -> Said | None:
    """From the first to the second, if "from ... to", "between ... and" or a dash joins them; ``said`` is ``plain``."""
    join = _JOIN.fullmatch(said[first.end : second.begin])
    between = _BETWEEN.search(said, max(0, first.begin - _REACH), first.begin)
    if join is None or (join["weak"] and not between):
        return None
    start, end = _in_one_year(first, second), second.span.end
    if start is None or start >= end:
        return None
    begin = between.start() if between else first.begin
    return Said(begin, second.end, start, end, max(first.certainty, second.certainty))


def related(said: str, one: Phrase) -> Said | None:
    """The phrase with what stands right before it; None if it names no time there, as "may" alone does not."""
    whole = _with_part(said, one)
    before = max(0, whole.begin - _REACH), whole.begin
    if (beside := _BESIDE.search(said, *before)) and not one.side:
        return _said(replace(whole, begin=beside.start(), span=_beside(whole.span, beside)))
    if side := _SIDE.search(said, *before):
        if side["side"] == "by" and one.needs_lead:  # it may be a person: "a book by May"
            return None
        return _said(replace(whole, begin=side.start()), side["side"])
    if one.needs_lead and whole is one and not _IN.search(said, *before):
        return None
    return _said(whole, one.side)


def _said(one: Phrase, side: str = "") -> Said:
    start, end = one.span.start, one.span.end
    bounds: dict[str, tuple[datetime | None, datetime | None]] = {
        "": (start, end),
        "since": (start, None),
        "after": (end, None),
        "following": (end, None),
        "before": (None, start),
        "prior to": (None, start),
    }
    return Said(one.begin, one.end, *bounds.get(side, (None, end)), one.certainty)


def _in_one_year(first: Phrase, second: Phrase) -> datetime | None:
    """The first's start; what has no year of its own lies in the year that ends with the second."""
    start, latest = first.span.start, second.span.start
    if first.has_year:
        return start
    try:
        same_year = start.replace(year=latest.year)
        return same_year if same_year <= latest else start.replace(year=latest.year - 1)
    except ValueError:
        return None


def _with_part(said: str, one: Phrase) -> Phrase:
    """The part of it that is meant: "late", "the first week of"."""
    match = _PART.search(said, max(0, one.begin - _REACH), one.begin)
    if match is None or one.certainty is Certainty.VAGUE:
        return one
    return replace(one, begin=match.start(), span=_part(one.span, match))


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
    """The unit or the weekday right before or after the stretch; two weeks before it: the week so far back."""
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
