"""Stretches of time: a day, a week, a month, a season, seen from a moment and in its time zone. Pure.

Every stretch is half-open, and its ends are wall-clock times of the moment's zone: a day on which the clocks change has
23 or 25 hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

_DAY = timedelta(days=1)
_MONTHS_A_YEAR = 12
_MONTHS_A_QUARTER = 3
_SEASON_MONTHS = 3


@dataclass(frozen=True, slots=True)
class Span:
    """From ``start`` on, and before ``end``."""

    start: datetime
    end: datetime


class Unit(StrEnum):
    """What time is counted in."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEKEND = "weekend"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


_DAYS_OF = {Unit.DAY: 1, Unit.WEEK: 7, Unit.WEEKEND: 7}
_MONTHS_OF = {Unit.MONTH: 1, Unit.QUARTER: 3, Unit.YEAR: 12}


def midnight(moment: datetime) -> datetime:
    """The start of the moment's day."""
    return moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def days(first: datetime, count: int = 1) -> Span:
    """So many days, from the day of ``first`` on."""
    start = midnight(first)
    return Span(start, start + count * _DAY)


def month(now: datetime, year: int, number: int, count: int = 1) -> Span:
    """So many months from that one on, 1 to 12. Raises ``ValueError`` for one that no calendar has."""
    start = midnight(now).replace(year=year, month=number, day=1)
    return Span(start, _later_by_months(start, count))


def year(now: datetime, number: int) -> Span:
    """The calendar year."""
    return month(now, number, 1, _MONTHS_A_YEAR)


def quarter(now: datetime, number: int, year_number: int) -> Span:
    """The quarter of the calendar year, 1 to 4."""
    return month(now, year_number, _MONTHS_A_QUARTER * (number - 1) + 1, _MONTHS_A_QUARTER)


def season(now: datetime, first_month: int, number: int) -> Span:
    """The three months from that one on, beginning in the year."""
    return month(now, number, first_month, _SEASON_MONTHS)


def unit_of(moment: datetime, unit: Unit) -> Span:
    """The calendar unit that holds the moment: weeks begin on Monday, a weekend is its week's Saturday and Sunday.

    A minute and an hour, of which no calendar has names, end at the moment.
    """
    match unit:
        case Unit.MINUTE | Unit.HOUR:
            return last(moment, unit, 1)
        case Unit.DAY:
            return days(moment)
        case Unit.WEEK:
            return days(moment - moment.weekday() * _DAY, 7)
        case Unit.WEEKEND:
            return days(moment + (5 - moment.weekday()) * _DAY, 2)
        case Unit.MONTH:
            return month(moment, moment.year, moment.month)
        case Unit.QUARTER:
            return month(moment, moment.year, moment.month - (moment.month - 1) % 3, 3)
        case Unit.YEAR:
            return year(moment, moment.year)


def moved(moment: datetime, unit: Unit, count: int) -> datetime:
    """So many units later (earlier, if negative); the last day of a shorter month stands for those it lacks."""
    if unit in _DAYS_OF:
        return moment + count * _DAYS_OF[unit] * _DAY
    if unit in _MONTHS_OF:
        return _later_by_months(moment, count * _MONTHS_OF[unit])
    elapsed = timedelta(hours=count) if unit is Unit.HOUR else timedelta(minutes=count)
    return (moment.astimezone(UTC) + elapsed).astimezone(moment.tzinfo)


def ago(now: datetime, unit: Unit, count: int) -> Span:
    """The calendar unit that lies so many of them back: one week ago is the week before this."""
    return unit_of(moved(now, unit, -count), unit)


def last(now: datetime, unit: Unit, count: int) -> Span:
    """The units up to now: whole days with today, or to the moment for minutes and hours."""
    start = moved(now, unit, -count)
    return Span(start, now) if unit in {Unit.MINUTE, Unit.HOUR} else Span(midnight(start), midnight(now) + _DAY)


def coming(now: datetime, unit: Unit, count: int) -> Span:
    """The units from now on: whole days from today, or from the moment for minutes and hours."""
    end = moved(now, unit, count)
    return Span(now, end) if unit in {Unit.MINUTE, Unit.HOUR} else Span(midnight(now), midnight(end) + _DAY)


def weekday_before(moment: datetime, number: int) -> datetime:
    """The start of the last such day (0: Monday) before the moment's day."""
    return midnight(moment) - ((moment.weekday() - number - 1) % 7 + 1) * _DAY


def weekday_after(moment: datetime, number: int) -> datetime:
    """The start of the first such day (0: Monday) after the moment's day."""
    return midnight(moment) + ((number - moment.weekday() - 1) % 7 + 1) * _DAY


def part(span: Span, first: float, after: float) -> Span:
    """The part of a span between two shares of its days, such as 0 and .5 for its first half."""
    whole = round((span.end.date() - span.start.date()) / _DAY)
    return Span(span.start + round(whole * first) * _DAY, span.start + round(whole * after) * _DAY)


def hours(day: Span, first: int, after: int) -> Span:
    """The hours of a day, by the wall clock; those above 24 are the next day's."""
    return Span(day.start + timedelta(hours=first), day.start + timedelta(hours=after))


def _later_by_months(moment: datetime, count: int) -> datetime:
    years, number = divmod(moment.month - 1 + count, _MONTHS_A_YEAR)
    first = moment.replace(year=moment.year + years, month=number + 1, day=1)
    following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    longest = round((following.replace(tzinfo=None) - first.replace(tzinfo=None)) / _DAY)
    return first.replace(day=min(moment.day, longest))
