"""The times in a query, as half-open periods: "yesterday", "since June" (docs/how-to/recall.md). English. Pure."""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum

from retrieval.domain.errors import InvalidRequestError

LONGEST_QUERY = 2000
"""Characters of a query; a longer one is a pasted text, whose times are not conditions."""

RECENT_DAYS = 30
"""The days that "recently" reaches back."""

_YEARS = (1000, 9000)
"""Every time zone has the times between these years."""
_REACH = 60

MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
           "december")  # fmt: skip
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SATURDAY, _SUNDAY = 5, 6
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The first month of each, as the northern half of the world counts them."""
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_ORDINALS = ("first", "second", "third", "fourth")
_FEW = (2, 5)
_DAYTIMES = {"morning": (5, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (18, 30)}
"""Hours of the day, from and up to; a night lasts until the next morning."""
_DAYS_AROUND = {"day before yesterday": -2, "yesterday": -1, "today": 0, "tomorrow": 1, "day after tomorrow": 2}
_COMING = frozenset({"next", "coming", "following"})
_CURRENT = frozenset({"this", "current"})
_THIRDS = {"early": (0.0, 1 / 3), "middle": (1 / 3, 2 / 3), "late": (2 / 3, 1.0)}
_BEFORE = frozenset({"before", "preceding", "prior to"})
_DAY = timedelta(days=1)
_LEAP_DAY = (2, 29)


_DAYS_OF = {"day": 1, "week": 7, "weekend": 7}
_MONTHS_OF = {"month": 1, "quarter": 3, "year": 12}
_BY_CLOCK = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1)}


class Certainty(IntEnum):
    """The certainty of an expression."""

    VAGUE = 0
    """A soft signal: "recently", "earlier"."""
    RELATIVE = 1
    """Counted from now: "last week", "two days ago"."""
    DATED = 2
    """A date of the calendar: "in May 2023", "on 5 May", "in March"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeExpression:
    """A period that a query names."""

    text: str
    certainty: Certainty
    start: datetime | None
    """The first moment; None: any before ``end``. In the time zone of ``now``, as ``end`` is."""
    end: datetime | None
    """The first moment after it; None: any from ``start`` on."""

    @property
    def is_soft(self) -> bool:
        """True if it only hints at a time."""
        return self.certainty is Certainty.VAGUE


@dataclass(frozen=True, slots=True)
class _Span:
    """A span of time from ``start`` on, and before ``end``."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str], datetime], _Span]
    certainty: Certainty = Certainty.RELATIVE
    needs_lead: bool = False
    """True if it names a time only after a word such as "in": "in May", but not "may"."""
    side: str = ""
    """``before``: it means what was before that time."""


@dataclass(frozen=True, slots=True)
class _Phrase:
    """Words at a place of a text, and the time that they name."""

    begin: int
    end: int
    span: _Span
    rule: _Rule
    has_year: bool


def time_expression(query: str, now: datetime) -> TimeExpression | None:
    """The time that the query names as a whole; None: no time.

    The most definite expressions count ("last week, as of 6 November" is about November). Several closed periods
    give one from the first's start to the last's end; an open one, such as "since May", bounds the others.
    """
    expressions = time_expressions(query, now)
    best = max((expression.certainty for expression in expressions), default=None)
    chosen = [expression for expression in expressions if expression.certainty is best]
    closed = [(each.start, each.end) for each in chosen if each.start is not None and each.end is not None]
    starts = [each.start for each in chosen if each.start is not None and each.end is None]
    ends = [each.end for each in chosen if each.end is not None and each.start is None]
    if closed:
        starts.append(min(start for start, _ in closed))
        ends.append(max(end for _, end in closed))
    start, end = max(starts, default=None), min(ends, default=None)
    if best is None or not _is_usable(start, end):
        return None
    text = ", ".join(dict.fromkeys(expression.text for expression in chosen))
    return TimeExpression(text=text, certainty=best, start=start, end=end)


def time_expressions(query: str, now: datetime) -> list[TimeExpression]:
    """Every expression of the query, in its order; none of a query longer than ``LONGEST_QUERY``.

    Raises ``InvalidRequestError`` if ``now`` has no time zone.
    """
    if now.tzinfo is None or now.utcoffset() is None:
        raise InvalidRequestError(f"now is {now.isoformat()} without a time zone; give one, such as datetime.now(UTC)")
    return list(_expressions(query, now)) if len(query) <= LONGEST_QUERY else []


def _expressions(query: str, now: datetime) -> Iterator[TimeExpression]:
    """The phrases with the words around them: "between", "since", "the week before"."""
    # In lower case with straight apostrophes, of the same length: places in it are places in the query.
    lowered = "".join(low if len(low := character.lower()) == 1 else character for character in query)
    text = lowered.translate(dict.fromkeys((0x2018, 0x2019, 0x02BC, 0xFF07), "'"))
    phrases, index = _phrases(text, now), 0
    while index < len(phrases):
        try:
            pair = _paired(text, *phrases[index : index + 2])
            found = pair or _related(text, phrases[index])
        except (ValueError, OverflowError):  # dates outside the calendar, such as 9999 years before 2020, are not times
            pair = found = None
        index += 1 if pair is None else 2
        if found is not None:
            begin, end, certainty, start_time, end_time = found
            if _is_usable(start_time, end_time):
                words = query[begin:end].strip()
                yield TimeExpression(text=words, certainty=certainty, start=start_time, end=end_time)


def _is_usable(start: datetime | None, end: datetime | None) -> bool:
    if any(moment is not None and not _YEARS[0] <= moment.year <= _YEARS[1] for moment in (start, end)):
        return False
    return start < end if start is not None and end is not None else (start or end) is not None


_Found = tuple[int, int, Certainty, datetime | None, datetime | None]
"""The places where the words begin and end, their certainty, and start and end of the time; None: open there."""


def _paired(text: str, first: _Phrase, second: _Phrase | None = None) -> _Found | None:
    """Joins two phrases by "from ... to", "between ... and" or a dash, from first to second."""
    if second is None:
        return None
    join = _JOIN.fullmatch(text[first.end : second.begin])
    between = _BETWEEN.search(text, max(0, first.begin - _REACH), first.begin)
    if join is None or (join["weak"] and not between):
        return None
    start, latest = first.span.start, second.span.start
    if not first.has_year:  # it is in the year that ends with the second
        start = start.replace(year=latest.year)
        start = start if start <= latest else start.replace(year=latest.year - 1)
    if start >= second.span.end:
        return None
    certainty = max(first.rule.certainty, second.rule.certainty)
    return between.start() if between else first.begin, second.end, certainty, start, second.span.end


def _related(text: str, phrase: _Phrase) -> _Found | None:
    """The phrase with the words right before it; None if it names no time there, as "may" alone does not."""
    whole, rule = _with_part(text, phrase), phrase.rule
    before = max(0, whole.begin - _REACH), whole.begin
    if (beside := _BESIDE.search(text, *before)) and not rule.side:
        return _bounded(replace(whole, begin=beside.start(), span=_beside(whole.span, beside)), "")
    if side := _SIDE.search(text, *before):
        if side["side"] == "by" and rule.needs_lead:  # it may be a person: "a book by May"
            return None
        return _bounded(replace(whole, begin=side.start()), side["side"])
    if rule.needs_lead and whole is phrase and not _IN.search(text, *before):
        return None
    return _bounded(whole, rule.side)


def _bounded(phrase: _Phrase, side: str) -> _Found:
    start, end = phrase.span.start, phrase.span.end
    bounds: dict[str, tuple[datetime | None, datetime | None]] = {
        "": (start, end),
        "since": (start, None),
        "after": (end, None),
        "following": (end, None),
        "before": (None, start),
        "prior to": (None, start),
    }
    return phrase.begin, phrase.end, phrase.rule.certainty, *bounds.get(side, (None, end))


def _with_part(text: str, phrase: _Phrase) -> _Phrase:
    """The phrase, limited to the part that the words before it name: "late", "the first week of"."""
    match, span = _PART.search(text, max(0, phrase.begin - _REACH), phrase.begin), phrase.span
    if match is None or phrase.rule.certainty is Certainty.VAGUE:
        return phrase
    if match["whole"]:
        span = _unit_of(span.start, match["whole"])
    elif match["nth"]:
        span = _nth(span, match["nth"], match["unit"])
    else:
        halves = {"first": (0.0, 0.5), "second": (0.5, 1.0)}
        first, after = halves.get(match["half"]) or next(share for name, share in _THIRDS.items() if match[name])
        whole = round((span.end.date() - span.start.date()) / _DAY)
        span = _Span(span.start + round(whole * first) * _DAY, span.start + round(whole * after) * _DAY)
    return replace(phrase, begin=match.start(), span=span)


def _nth(span: _Span, nth: str, unit: str) -> _Span:
    """A week, of seven days counted from the start or back from the end, or a weekend, by its Saturday."""
    is_weekend = unit == "weekend"
    if nth == "last":
        return _days(_weekday_before(span.end, _SATURDAY), 2) if is_weekend else _Span(span.end - 7 * _DAY, span.end)
    first = _weekday_after(span.start - _DAY, _SATURDAY) if is_weekend else span.start
    return _days(first + _ORDINALS.index(nth) * 7 * _DAY, 2 if is_weekend else 7)


def _beside(span: _Span, match: re.Match[str]) -> _Span:
    """The unit or the weekday right before or after the span; "two weeks before" is the second week before it."""
    is_before = match["side"] in _BEFORE
    edge = span.start if is_before else span.end
    if match["weekday"]:
        number = _WEEKDAYS.index(match["weekday"])
        return _days(_weekday_before(edge, number) if is_before else _weekday_after(edge - _DAY, number))
    unit, count = match["unit"], _counted(match["count"] or "one")[1]
    if unit == "weekend":
        saturday = _weekday_before(edge, _SUNDAY) - _DAY if is_before else _weekday_after(edge - _DAY, _SATURDAY)
        return _days(saturday, 2)
    if count > 1:
        return _unit_of(_moved(edge, unit, -count if is_before else count), unit)
    return _Span(_moved(edge, unit, -1), edge) if is_before else _Span(edge, _moved(edge, unit, 1))


def _phrases(text: str, now: datetime) -> list[_Phrase]:
    """All phrases of a text in lower case, in order, the longest at each place; 31 February is none."""
    in_order: list[_Phrase] = []
    used: list[tuple[int, int]] = []
    for rule in _RULES:
        for match in rule.pattern.finditer(text):
            if any(match.start() < end and begin < match.end() for begin, end in used):
                continue
            used.append(match.span())
            try:
                span = rule.read(match, now)
            except (ValueError, OverflowError):
                continue
            has_year = rule.certainty is not Certainty.DATED or match.groupdict().get("year") is not None
            in_order.append(_Phrase(*match.span(), span, rule, has_year))
    return sorted(in_order, key=lambda phrase: phrase.begin)


def _counted(words: str) -> tuple[int, int]:
    """The range that a number stands for, from and to: the same for all but "a few"."""
    if "few" in words or words == "several":
        return _FEW
    number = _NUMBERS.index(words) + 1 if words in _NUMBERS else 2 if "couple" in words else 1
    number = int(words) if words.isdecimal() else number
    return number, number


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def _days(first: datetime, count: int = 1) -> _Span:
    start = _midnight(first)
    return _Span(start, start + count * _DAY)


def _months(now: datetime, year: int, first: int, count: int = 1) -> _Span:
    """The span of ``count`` months from that month on, 1 to 12. Raises ``ValueError`` for any other number."""
    start = _midnight(now).replace(year=year, month=first, day=1)
    return _Span(start, _later_by_months(start, count))


def _unit_of(moment: datetime, unit: str) -> _Span:
    """The calendar unit that holds the moment, from Monday or Saturday on; a minute and an hour end at the moment."""
    if unit in _BY_CLOCK:
        return _rolling(moment, unit, -1)
    if unit in _MONTHS_OF:
        count = _MONTHS_OF[unit]
        return _months(moment, moment.year, moment.month - (moment.month - 1) % count, count)
    if unit == "day":
        return _days(moment)
    monday = moment - moment.weekday() * _DAY
    return _days(monday, 7) if unit == "week" else _days(monday + _SATURDAY * _DAY, 2)


def _moved(moment: datetime, unit: str, count: int) -> datetime:
    """The moment ``count`` units later, or earlier if negative; a day that the month lacks becomes its last day."""
    if unit in _DAYS_OF:
        return moment + count * _DAYS_OF[unit] * _DAY
    if unit in _MONTHS_OF:
        return _later_by_months(moment, count * _MONTHS_OF[unit])
    return (moment.astimezone(UTC) + count * _BY_CLOCK[unit]).astimezone(moment.tzinfo)


def _later_by_months(moment: datetime, count: int) -> datetime:
    years, number = divmod(moment.month - 1 + count, 12)
    first = moment.replace(year=moment.year + years, month=number + 1, day=1)
    following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    longest = round((following.replace(tzinfo=None) - first.replace(tzinfo=None)) / _DAY)
    return first.replace(day=min(moment.day, longest))


def _rolling(now: datetime, unit: str, count: int) -> _Span:
    """The units up to now, or if ``count`` is positive from now on: whole days with today, or exact by the clock."""
    start, end = sorted((now, _moved(now, unit, count)))
    return _Span(start, end) if unit in _BY_CLOCK else _Span(_midnight(start), _midnight(end) + _DAY)


def _weekday_before(moment: datetime, number: int) -> datetime:
    """The start of the last such day (0: Monday) before the moment's day."""
    return _midnight(moment) - ((moment.weekday() - number - 1) % 7 + 1) * _DAY


def _weekday_after(moment: datetime, number: int) -> datetime:
    """The start of the first such day (0: Monday) after the moment's day."""
    return _midnight(moment) + ((number - moment.weekday() - 1) % 7 + 1) * _DAY


def _iso(match: re.Match[str], now: datetime) -> _Span:
    first = _months(now, int(match["year"]), int(match["number"]))
    day = match.groupdict().get("day")
    return _days(first.start.replace(day=int(day))) if day else first


def _numbers(match: re.Match[str], now: datetime) -> _Span:
    """A day in numbers: the day comes first with dots or where the first number is not a month, else the month."""
    first, second = int(match["first"]), int(match["second"])
    day, number = (first, second) if match["mark"] == "." or first > 12 else (second, first)
    return _days(_midnight(now).replace(year=int(match["year"]), month=number, day=day))


def _dates(match: re.Match[str], now: datetime) -> _Span:
    """A day of a month, or the days from ``first`` to it; of the latest year in which it has begun, unless given."""
    day = int(match["day"])
    first = int(match.groupdict().get("first") or day)
    first = min(first, day)
    number, _ = _period(match["period"])
    latest = now.year - ((number, first) > (now.month, now.day))
    while (number, first) == _LEAP_DAY and not isleap(latest):
        latest -= 1
    return _days(_midnight(now).replace(year=int(match["year"] or latest), month=number, day=first), day - first + 1)


def _period(name: str) -> tuple[int, int]:
    """The first month and the number of months of a month, a season or a quarter."""
    if name in _SEASONS:
        return _SEASONS[name], 3
    if name.endswith("quarter") or name[1:].isdecimal():
        digit = name.removeprefix("q")[0]
        ordinal = len(_ORDINALS) - 1 if name.startswith("last") else None
        if ordinal is None:
            ordinal = int(digit) - 1 if digit.isdecimal() else _ORDINALS.index(name.split(maxsplit=1)[0])
        return 3 * ordinal + 1, 3
    return next(number for number, month in enumerate(MONTHS, 1) if month.startswith(name[:3])), 1


def _of_year(match: re.Match[str], now: datetime) -> _Span:
    return _months(now, int(match["year"]), *_period(match["period"]))


def _latest(match: re.Match[str], now: datetime) -> _Span:
    first, count = _period(match["period"])
    return _months(now, now.year - (first > now.month), first, count)


def _which_period(match: re.Match[str], now: datetime) -> _Span:
    """The current period of that name, else this year's; the last past one; or the next one."""
    first, count = _period(match["period"])
    near = [_months(now, year, first, count) for year in range(now.year - 2, now.year + 2)]
    if match["which"] in _COMING:
        return next(span for span in near if span.start > now)
    if match["which"] in _CURRENT:
        return next((span for span in near if span.start <= now < span.end), near[2])
    return [span for span in near if span.end <= now][-1]


def _named_day(match: re.Match[str], now: datetime) -> _Span:
    return _daytime(now + _DAYS_AROUND[" ".join(match["name"].split())] * _DAY, match["daytime"])


def _daytime(day: datetime, name: str | None) -> _Span:
    whole = _days(day)
    if name is None:
        return whole
    return _Span(*(whole.start + timedelta(hours=hour) for hour in _DAYTIMES[name]))


def _ago(match: re.Match[str], now: datetime) -> _Span:
    """The calendar unit that many units back: one week ago is the week before this."""
    (least, most), unit = _counted(match["count"]), match["unit"]
    return _Span(_unit_of(_moved(now, unit, -most), unit).start, _unit_of(_moved(now, unit, -least), unit).end)


def _rolled(match: re.Match[str], now: datetime) -> _Span:
    count = _counted(match["count"] or "one")[1]
    return _rolling(now, match["unit"], count if match["which"] in _COMING else -count)


def _which_unit(match: re.Match[str], now: datetime) -> _Span:
    """This, the last or the next calendar unit."""
    unit = match["unit"]
    if match["which"] in _CURRENT:
        return _unit_of(now, unit)
    step = 1 if match["which"] in _COMING else -1
    return _rolling(now, unit, step) if unit in _BY_CLOCK else _unit_of(_moved(now, unit, step), unit)


def _which_weekday(match: re.Match[str], now: datetime) -> _Span:
    number, which = _WEEKDAYS.index(match["weekday"]), match["which"]
    if which in _CURRENT:
        day = now + (number - now.weekday()) * _DAY
    elif which in _COMING:
        day = _weekday_after(now, number)
    else:  # a day without more, as in "on Friday", may be today
        day = _weekday_before(now + (which == "on") * _DAY, number)
    return _daytime(day, match["daytime"])


def _pattern(text: str) -> re.Pattern[str]:
    """A pattern that begins and ends with whole words; one space stands for any white space."""
    return re.compile(rf"(?<!\w)(?:(?<!-)|(?<=mid-))(?:{text})(?!\w)".replace(" ", r"\s+"))


def _lead(text: str) -> re.Pattern[str]:
    """A pattern of what is right before something, up to its end."""
    return re.compile(rf"(?<![\w-])(?:{text})\s*$".replace(" ", r"\s+"))


_NAMES = "|".join(MONTHS)
_SHORT = "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
_MONTH = rf"(?P<period>(?:{_NAMES}|{_SHORT}))\b\.?"
_FULL_MONTH = rf"(?P<period>{_NAMES}|sept)\b"
_SEASON = rf"(?P<period>{'|'.join(_SEASONS)})\b"
_QUARTER = rf"(?:the )?(?P<period>q[1-4]|(?:{'|'.join(_ORDINALS)}|1st|2nd|3rd|4th|last) quarter)"
_YEAR = r"(?P<year>(?:19|20)\d\d)(?![\d-]|[.,]\d)"
_BARE_YEAR = r"(?P<year>(?:19|20)\d\d)"
_FIRST_DAY = r"(?P<first>\d{1,2})(?:st|nd|rd|th)?\b"
_DAY_OF_MONTH = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
_TO = r"(?(between) and |(?: (?:to|until|till|through|thru) |\s*[-–—]\s*))(?:the )?"
"""Joins two days; after the group ``between``, "and" does."""
_NO_MONTH = "".join(
    rf"(?<!\b{name}\s)" for name in f"{_NAMES}|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec".split("|")
)
"""May not be before a day: in "May 5 to 7 June" the 5 is not in June."""
_NO_COUNT = rf"(?!\s+(?:of )?(?:{_NAMES}|{_SHORT})\b|:\d|\s*[ap]\.?m\b|\s+(?:minute|hour|day|week|month|year|time)s?\b)"
"""May not be after a day: another month, a time of day, or a noun that the number counts."""
_WEEKDAY = rf"(?P<weekday>{'|'.join(_WEEKDAYS)})\b"
_UNIT = r"(?P<unit>minute|hour|day|week(?:end)?|month|quarter|year)s?\b"
_COUNT = rf"(?P<count>\d{{1,4}}|{'|'.join(_NUMBERS)}|(?:a )?couple(?: of)?|(?:a )?few|several|an?)"
_DAYTIME = rf"(?P<daytime>{'|'.join(_DAYTIMES)})\b"
_WHICH = r"(?P<which>this|current|last|previous|next|coming|following)"
_FROM = r"(?:from (?:the )?|(?P<between>between (?:the )?))?"
_OF = r"(?:,? (?:of )?|,\s*)"
_NO_LESS, _NO_MORE = r"(?<![./])", r"(?![-./]\d)"
"""Around a date in numbers: it is not part of a version, an address or a path."""

_JOIN = re.compile(r"\s*(?:(?P<weak>and)|to|until|till|through|thru|[-–—])\s*(?:the\s+)?")
_BETWEEN = _lead(r"between|from")
_IN = _lead(r"(?:in|during|throughout|within|around|of|from)(?: the)?(?: (?:year|month)(?: of)?)?")
_PART = _lead(
    r"(?P<early>early(?: in)?|(?:the )?(?:beginning|start) of)|(?P<middle>mid-?|(?:the )?middle of)|"
    r"(?P<late>late(?: in)?|(?:the )?end of)|(?:the )?(?P<half>first|second) half of|"
    rf"(?:the )?(?P<nth>{'|'.join(_ORDINALS)}|last) (?P<unit>week|weekend) (?:of|in)|"
    r"(?:the )?(?P<whole>week|weekend) of"
)
_BESIDE = _lead(
    rf"(?:the )?(?:{_COUNT} )?(?:{_WEEKDAY}|{_UNIT}) (?P<side>before|preceding|prior to|after|following)(?: the)?"
)
_SIDE = _lead(r"(?P<side>since|after|following|before|prior to|until|till|up to|by|as of)(?: the)?")

_DATED, _VAGUE = Certainty.DATED, Certainty.VAGUE

# The first rule that matches a place wins, so longer patterns come before the shorter ones within them.
_RULES = (
    _Rule(_pattern(rf"{_BARE_YEAR}-(?P<number>\d\d)(?:-(?P<day>\d\d))?(?!-)"), _iso, _DATED),
    _Rule(_pattern(rf"{_BARE_YEAR}/(?P<number>\d{{1,2}})/(?P<day>\d{{1,2}}){_NO_MORE}"), _iso, _DATED),
    _Rule(
        _pattern(rf"{_NO_LESS}(?P<first>\d{{1,2}})(?P<mark>[-./])(?P<second>\d{{1,2}})(?P=mark){_BARE_YEAR}{_NO_MORE}"),
        _numbers,
        _DATED,
    ),
    _Rule(_pattern(rf"{_NO_LESS}(?P<number>\d{{1,2}})/{_BARE_YEAR}{_NO_MORE}"), _iso, _DATED),
    _Rule(_pattern(rf"{_QUARTER}(?: of |,? |,\s*|[-/]){_YEAR}"), _of_year, _DATED),
    _Rule(_pattern(rf"{_BARE_YEAR}[-/ ]{_QUARTER}"), _of_year, _DATED),
    _Rule(
        _pattern(rf"{_FROM}{_NO_MONTH}{_FIRST_DAY}{_TO}{_DAY_OF_MONTH} (?:of )?{_MONTH}(?:{_OF}{_YEAR})?"),
        _dates,
        _DATED,
    ),
    _Rule(
        _pattern(rf"{_FROM}{_MONTH} (?:the )?{_FIRST_DAY}{_TO}{_DAY_OF_MONTH}{_NO_COUNT}(?:(?:,? |,\s*){_YEAR})?"),
        _dates,
        _DATED,
    ),
    _Rule(_pattern(rf"{_DAY_OF_MONTH} (?:of )?{_MONTH}(?:{_OF}{_YEAR})?"), _dates, _DATED),
    _Rule(_pattern(rf"{_MONTH} (?:the )?{_DAY_OF_MONTH}(?:(?:,? |,\s*){_YEAR})?"), _dates, _DATED),
    _Rule(_pattern(rf"{_MONTH}{_OF}{_YEAR}"), _of_year, _DATED),
    _Rule(_pattern(rf"{_SEASON}{_OF}{_YEAR}"), _of_year, _DATED),
    _Rule(
        _pattern(rf"(?:the )?(?P<name>{'|'.join(sorted(_DAYS_AROUND, key=len, reverse=True))})(?: {_DAYTIME})?"),
        _named_day,
    ),
    _Rule(
        _pattern(rf"(?P<which>this|last) {_DAYTIME}"),
        lambda match, now: _daytime(now - (match["which"] == "last") * _DAY, match["daytime"]),
    ),
    _Rule(_pattern("tonight"), lambda _, now: _daytime(now, "night")),
    _Rule(
        _pattern(rf"(?:the )?{_UNIT} before last"),
        lambda match, now: _unit_of(_moved(now, match["unit"], -2), match["unit"]),
    ),
    _Rule(_pattern(rf"{_COUNT} {_UNIT} (?:ago|back)"), _ago),
    _Rule(_pattern(rf"(?P<which>last|past|previous|next|coming|following) {_COUNT} {_UNIT}"), _rolled),
    _Rule(_pattern(rf"(?P<which>past)(?P<count>) {_UNIT}"), _rolled),
    _Rule(_pattern(rf"{_WHICH} {_UNIT}"), _which_unit),
    _Rule(_pattern(rf"(?P<which>this|last|previous|past|next|coming|on) {_WEEKDAY}(?: {_DAYTIME})?"), _which_weekday),
    _Rule(_pattern(rf"{_WHICH} {_FULL_MONTH}"), _which_period),
    _Rule(_pattern(rf"{_WHICH} {_SEASON}"), _which_period),
    _Rule(_pattern("(?P<period>q[1-4])"), _latest, _DATED, needs_lead=True),
    _Rule(_pattern(_FULL_MONTH), _latest, _DATED, needs_lead=True),
    _Rule(_pattern(rf"(?:in|during|over|throughout) the {_SEASON}(?! of)"), _latest, _DATED),
    _Rule(_pattern(_YEAR), lambda match, now: _months(now, int(match["year"]), 1, 12), _DATED, needs_lead=True),
    _Rule(
        _pattern(r"recently|lately|recent|latest|newest|currently|nowadays|these days|at the moment|right now"),
        lambda _, now: _rolling(now, "day", -RECENT_DAYS),
        _VAGUE,
    ),
    _Rule(
        _pattern(r"before(?=\W*$)|earlier(?! than)|previously|formerly"),
        lambda _, now: _days(now),
        _VAGUE,
        side="before",
    ),
)
