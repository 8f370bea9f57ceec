"""The smallest phrases that name a time, and the spans of time that they mean. Pure.

Every span is half-open, and its ends are wall-clock times of the moment's zone: a day on which the clocks change has
23 or 25 hours.
"""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum

MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
          "december")  # fmt: skip
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The first month of each, as the northern half of the world counts them."""
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
ORDINALS = ("first", "second", "third", "fourth")
FEW = (2, 5)
"""The range that "a few" and "several" stand for: from, to."""
DAYTIMES = {"morning": (5, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (18, 30)}
"""Hours of the day, from and up to; a night lasts until the next morning."""

_NAMES = "|".join(MONTHS)
_SHORT = "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
MONTH = rf"(?P<month>(?:{_NAMES}|{_SHORT}))\b\.?"
FULL_MONTH = rf"(?P<full>{_NAMES}|sept)\b"
YEAR = r"(?P<year>(?:19|20)\d\d)(?![\d-]|[.,]\d)"
FIRST_DAY = r"(?P<first>\d{1,2})(?:st|nd|rd|th)?\b"
TO = r"(?(between) and |(?: (?:to|until|till|through|thru) |\s*[-–—]\s*))(?:the )?"
"""Joins two days; after the group ``between``, "and" does."""
DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
NO_MONTH = "".join(
    rf"(?<!\b{name}\s)" for name in f"{_NAMES}|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec".split("|")
)
"""May not stand before a day: in "May 5 to 7 June" the 5 is not in June."""
NO_COUNT = rf"(?!\s+(?:of )?(?:{_NAMES}|{_SHORT})\b|:\d|\s*[ap]\.?m\b|\s+(?:minute|hour|day|week|month|year|time)s?\b)"
"""May not stand after a day: another month, a time of day, or a noun that the number counts."""
WEEKDAY = rf"(?P<weekday>{'|'.join(WEEKDAYS)})\b"
SEASON = rf"(?P<season>{'|'.join(SEASONS)})\b"
QUARTER = rf"(?:the )?(?P<quarter>q[1-4]|(?:{'|'.join(ORDINALS)}|1st|2nd|3rd|4th|last) quarter)"
UNIT = r"(?P<unit>minute|hour|day|week(?:end)?|month|quarter|year)s?\b"
COUNT = rf"(?P<count>\d{{1,4}}|{'|'.join(NUMBERS)}|(?:a )?couple(?: of)?|(?:a )?few|several|an?)"
DAYTIME = rf"(?P<daytime>{'|'.join(DAYTIMES)})\b"

_APOSTROPHES = dict.fromkeys((0x2018, 0x2019, 0x02BC, 0xFF07), "'")


def plain(text: str) -> str:
    """The text in lower case with straight apostrophes, of the same length: places in it are places in the text."""
    lowered = "".join(low if len(low := character.lower()) == 1 else character for character in text)
    return lowered.translate(_APOSTROPHES)


def counted(words: str) -> tuple[int, int]:
    """The range that a number stands for, from and to: the same for all but "a few"."""
    if words.isdecimal():
        return int(words), int(words)
    if "few" in words or words == "several":
        return FEW
    if "couple" in words:
        return 2, 2
    number = NUMBERS.index(words) + 1 if words in NUMBERS else 1
    return number, number


def month_number(name: str) -> int:
    """1 to 12, of the month's name or its first letters."""
    return next(number for number, month in enumerate(MONTHS, 1) if month.startswith(name[:3]))


def quarter_number(name: str) -> int:
    """1 to 4, of "q3", "third quarter", "3rd quarter" or "last quarter"."""
    if name.startswith("last"):
        return len(ORDINALS)
    digit = name.removeprefix("q")[0]
    return int(digit) if digit.isdecimal() else ORDINALS.index(name.split(maxsplit=1)[0]) + 1


def pattern(text: str) -> re.Pattern[str]:
    """A pattern that begins and ends with whole words; one space stands for any white space."""
    return re.compile(rf"(?<!\w)(?:(?<!-)|(?<=mid-))(?:{text})(?!\w)".replace(" ", r"\s+"))


def lead(text: str) -> re.Pattern[str]:
    """A pattern of what stands right before something, up to its end."""
    return re.compile(rf"(?<![\w-])(?:{text})\s*$".replace(" ", r"\s+"))


_DAY = timedelta(days=1)
_MONTHS_A_YEAR = 12
_MONTHS_A_QUARTER = 3
_SEASON_MONTHS = 3


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time from ``start`` on, and before ``end``."""

    start: datetime
    end: datetime


class Unit(StrEnum):
    """A unit in which time is counted."""

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
    """The span of ``count`` days, from the day of ``first`` on."""
    start = midnight(first)
    return Span(start, start + count * _DAY)


def month(now: datetime, year: int, number: int, count: int = 1) -> Span:
    """The span of ``count`` months from that month on, 1 to 12. Raises ``ValueError`` for any other number."""
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
    """The moment ``count`` units later, or earlier if negative; a day that the month lacks becomes its last day."""
    if unit in _DAYS_OF:
        return moment + count * _DAYS_OF[unit] * _DAY
    if unit in _MONTHS_OF:
        return _later_by_months(moment, count * _MONTHS_OF[unit])
    elapsed = timedelta(hours=count) if unit is Unit.HOUR else timedelta(minutes=count)
    return (moment.astimezone(UTC) + elapsed).astimezone(moment.tzinfo)


def ago(now: datetime, unit: Unit, count: int) -> Span:
    """The calendar unit ``count`` units back: one week ago is the week before this."""
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


RECENT_DAYS = 30
"""The days that "recently" reaches back."""
_LEAP_DAY = (2, 29)
_DAYS_AROUND = {"day before yesterday": -2, "yesterday": -1, "today": 0, "tomorrow": 1, "day after tomorrow": 2}
_COMING = frozenset({"next", "coming", "following"})
_CURRENT = frozenset({"this", "current"})


class Certainty(IntEnum):
    """The certainty of an expression."""

    VAGUE = 0
    """A soft signal: "recently", "earlier"."""
    RELATIVE = 1
    """Counted from now: "last week", "two days ago"."""
    DATED = 2
    """A date of the calendar: "in May 2023", "on 5 May", "in March"."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words at a place of a text, and the time that they name."""

    begin: int
    end: int
    """The place after the last character."""
    span: Span
    certainty: Certainty
    needs_lead: bool = False
    """True if it names a time only after a word such as "in": "in May", but not "may"."""
    has_year: bool = True
    side: str = ""
    """``before``: it means what was before that time."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str], datetime], Span]
    certainty: Certainty = Certainty.RELATIVE
    needs_lead: bool = False
    side: str = ""


def phrases(text: str, now: datetime) -> list[Phrase]:
    """All phrases in their order, the longest at each place; a date that does not exist, such as 31 February, is none.

    ``text``: the text as ``plain`` makes it.
    """
    in_order: list[Phrase] = []
    used: list[tuple[int, int]] = []
    for rule in _RULES:
        for match in rule.pattern.finditer(text):
            if any(match.start() < end and begin < match.end() for begin, end in used):
                continue
            used.append(match.span())
            if (phrase := _phrase(rule, match, now)) is not None:
                in_order.append(phrase)
    return sorted(in_order, key=lambda phrase: phrase.begin)


def _phrase(rule: _Rule, match: re.Match[str], now: datetime) -> Phrase | None:
    try:
        span = rule.read(match, now)
    except (ValueError, OverflowError):
        return None
    has_year = rule.certainty is not Certainty.DATED or match.groupdict().get("year") is not None
    return Phrase(*match.span(), span, rule.certainty, rule.needs_lead, has_year, rule.side)


def _iso(match: re.Match[str], now: datetime) -> Span:
    first = month(now, int(match["year"]), int(match["number"]))
    return days(first.start.replace(day=int(match["day"]))) if match["day"] else first


def _numbers(match: re.Match[str], now: datetime) -> Span:
    """A day in numbers: the day comes first with dots or where the first number is not a month, else the month."""
    first, second = int(match["first"]), int(match["second"])
    is_day_first = match["mark"] == "." or first > _MONTHS_A_YEAR
    day, number = (first, second) if is_day_first else (second, first)
    return days(midnight(now).replace(year=int(match["year"]), month=number, day=day))


def _month_in_numbers(match: re.Match[str], now: datetime) -> Span:
    return month(now, int(match["year"]), int(match["number"]))


def _quarter_of_year(match: re.Match[str], now: datetime) -> Span:
    return quarter(now, quarter_number(match["quarter"]), int(match["year"]))


def _latest_quarter(match: re.Match[str], now: datetime) -> Span:
    number = quarter_number(match["quarter"])
    return quarter(now, number, now.year - (quarter(now, number, now.year).start > now))


def _date(match: re.Match[str], now: datetime) -> Span:
    """A day of a month; of the latest year in which it has begun, unless it says which."""
    return days(_day_of(match, int(match["day"]), now))


def _dates(match: re.Match[str], now: datetime) -> Span:
    """Days of a month, from one to the other; the second alone where the first is not an earlier day."""
    first, second = int(match["first"]), int(match["day"])
    return days(_day_of(match, first, now), second - first + 1) if first < second else _date(match, now)


def _day_of(match: re.Match[str], day: int, now: datetime) -> datetime:
    number = month_number(match["month"])
    latest = now.year - ((number, day) > (now.month, now.day))
    while (number, day) == _LEAP_DAY and not isleap(latest):
        latest -= 1
    return midnight(now).replace(year=int(match["year"] or latest), month=number, day=day)


def _month_of_year(match: re.Match[str], now: datetime) -> Span:
    return month(now, int(match["year"]), month_number(match["month"]))


def _season_of_year(match: re.Match[str], now: datetime) -> Span:
    return season(now, SEASONS[match["season"]], int(match["year"]))


def _latest_month(match: re.Match[str], now: datetime) -> Span:
    number = month_number(match["full"])
    return month(now, now.year - (number > now.month), number)


def _latest_season(match: re.Match[str], now: datetime) -> Span:
    first = SEASONS[match["season"]]
    return season(now, first, now.year - (first > now.month))


def _named_day(match: re.Match[str], now: datetime) -> Span:
    return _daytime(now + _DAYS_AROUND[" ".join(match["name"].split())] * _DAY, match["daytime"])


def _this_daytime(match: re.Match[str], now: datetime) -> Span:
    return _daytime(now - (match["which"] == "last") * _DAY, match["daytime"])


def _daytime(day: datetime, name: str | None) -> Span:
    whole = days(day)
    return whole if name is None else hours(whole, *DAYTIMES[name])


def _ago(match: re.Match[str], now: datetime) -> Span:
    least, most = counted(match["count"])
    unit = Unit(match["unit"])
    return Span(ago(now, unit, most).start, ago(now, unit, least).end)


def _rolling(match: re.Match[str], now: datetime) -> Span:
    count = counted(match["count"] or "one")[1]
    return _roll(match["which"], now, Unit(match["unit"]), count)


def _roll(which: str, now: datetime, unit: Unit, count: int) -> Span:
    return (coming if which in _COMING else last)(now, unit, count)


def _which_unit(match: re.Match[str], now: datetime) -> Span:
    """This, the last or the next calendar unit."""
    unit = Unit(match["unit"])
    if match["which"] in _CURRENT:
        return unit_of(now, unit)
    if unit in {Unit.MINUTE, Unit.HOUR}:  # no calendar names them
        return _roll(match["which"], now, unit, 1)
    return ago(now, unit, -1 if match["which"] in _COMING else 1)


def _which_weekday(match: re.Match[str], now: datetime) -> Span:
    number, which = WEEKDAYS.index(match["weekday"]), match["which"]
    if which in _CURRENT:
        day = now + (number - now.weekday()) * _DAY
    elif which in _COMING:
        day = weekday_after(now, number)
    else:  # a day without more, as in "on Friday", may be today
        day = weekday_before(now + (which == "on") * _DAY, number)
    return _daytime(day, match["daytime"])


def _which_month(match: re.Match[str], now: datetime) -> Span:
    """The month of this year, the last past one, or the next one."""
    number = month_number(match["full"])
    if match["which"] in _COMING:
        return month(now, now.year + (number <= now.month), number)
    return month(now, now.year - (match["which"] not in _CURRENT and number >= now.month), number)


def _which_season(match: re.Match[str], now: datetime) -> Span:
    """The current season, else this year's; the last past one; or the next one."""
    near = [season(now, SEASONS[match["season"]], number) for number in range(now.year - 2, now.year + 2)]
    if match["which"] in _COMING:
        return next(span for span in near if span.start > now)
    if match["which"] in _CURRENT:
        return next((span for span in near if span.start <= now < span.end), near[2])
    return [span for span in near if span.end <= now][-1]


_WHICH = r"(?P<which>this|current|last|previous|next|coming|following)"
_FROM = r"(?:from (?:the )?|(?P<between>between (?:the )?))?"
_OF = r"(?:,? (?:of )?|,\s*)"
_BARE_YEAR = r"(?P<year>(?:19|20)\d\d)"
_NO_LESS, _NO_MORE = r"(?<![./])", r"(?![-./]\d)"
"""Around a date in numbers: it is not part of a version, an address or a path."""
_DATED, _VAGUE = Certainty.DATED, Certainty.VAGUE

# The first rule that matches a place wins, so longer patterns come before the shorter ones within them.
_RULES = (
    _Rule(pattern(rf"{_BARE_YEAR}-(?P<number>\d\d)(?:-(?P<day>\d\d))?(?!-)"), _iso, _DATED),
    _Rule(pattern(rf"{_BARE_YEAR}/(?P<number>\d{{1,2}})/(?P<day>\d{{1,2}}){_NO_MORE}"), _iso, _DATED),
    _Rule(
        pattern(rf"{_NO_LESS}(?P<first>\d{{1,2}})(?P<mark>[-./])(?P<second>\d{{1,2}})(?P=mark){_BARE_YEAR}{_NO_MORE}"),
        _numbers,
        _DATED,
    ),
    _Rule(pattern(rf"{_NO_LESS}(?P<number>\d{{1,2}})/{_BARE_YEAR}{_NO_MORE}"), _month_in_numbers, _DATED),
    _Rule(pattern(rf"{QUARTER}(?: of |,? |,\s*|[-/]){YEAR}"), _quarter_of_year, _DATED),
    _Rule(pattern(rf"{_BARE_YEAR}[-/ ]{QUARTER}"), _quarter_of_year, _DATED),
    _Rule(pattern(rf"{_FROM}{NO_MONTH}{FIRST_DAY}{TO}{DAY} (?:of )?{MONTH}(?:{_OF}{YEAR})?"), _dates, _DATED),
    _Rule(pattern(rf"{_FROM}{MONTH} (?:the )?{FIRST_DAY}{TO}{DAY}{NO_COUNT}(?:(?:,? |,\s*){YEAR})?"), _dates, _DATED),
    _Rule(pattern(rf"{DAY} (?:of )?{MONTH}(?:{_OF}{YEAR})?"), _date, _DATED),
    _Rule(pattern(rf"{MONTH} (?:the )?{DAY}(?:(?:,? |,\s*){YEAR})?"), _date, _DATED),
    _Rule(pattern(rf"{MONTH}{_OF}{YEAR}"), _month_of_year, _DATED),
    _Rule(pattern(rf"{SEASON}{_OF}{YEAR}"), _season_of_year, _DATED),
    _Rule(
        pattern(
            r"(?:the )?(?P<name>day before yesterday|day after tomorrow|yesterday|today|tomorrow)"
            rf"(?: {DAYTIME})?"
        ),
        _named_day,
    ),
    _Rule(pattern(rf"(?P<which>this|last) {DAYTIME}"), _this_daytime),
    _Rule(pattern("tonight"), lambda _, now: _daytime(now, "night")),
    _Rule(pattern(rf"(?:the )?{UNIT} before last"), lambda match, now: ago(now, Unit(match["unit"]), 2)),
    _Rule(pattern(rf"{COUNT} {UNIT} (?:ago|back)"), _ago),
    _Rule(pattern(rf"(?P<which>last|past|previous|next|coming|following) {COUNT} {UNIT}"), _rolling),
    _Rule(pattern(rf"(?P<which>past)(?P<count>) {UNIT}"), _rolling),
    _Rule(pattern(rf"{_WHICH} {UNIT}"), _which_unit),
    _Rule(
        pattern(rf"(?P<which>this|last|previous|past|next|coming|on) {WEEKDAY}(?: {DAYTIME})?"),
        _which_weekday,
    ),
    _Rule(pattern(rf"{_WHICH} {FULL_MONTH}"), _which_month),
    _Rule(pattern(rf"{_WHICH} {SEASON}"), _which_season),
    _Rule(pattern("(?P<quarter>q[1-4])"), _latest_quarter, _DATED, needs_lead=True),
    _Rule(pattern(FULL_MONTH), _latest_month, _DATED, needs_lead=True),
    _Rule(pattern(rf"(?:in|during|over|throughout) the {SEASON}(?! of)"), _latest_season, _DATED),
    _Rule(pattern(YEAR), lambda match, now: year(now, int(match["year"])), _DATED, needs_lead=True),
    _Rule(
        pattern(r"recently|lately|recent|latest|newest|currently|nowadays|these days|at the moment|right now"),
        lambda _, now: last(now, Unit.DAY, RECENT_DAYS),
        _VAGUE,
    ),
    _Rule(
        pattern(r"before(?=\W*$)|earlier(?! than)|previously|formerly"), lambda _, now: days(now), _VAGUE, side="before"
    ),
)
