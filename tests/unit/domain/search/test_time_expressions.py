"""Time expressions in a query, relative to a moment and in its time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.time_expressions import Certainty, time_expression, time_expressions

NOW = datetime(2026, 11, 18, 15, 30, tzinfo=UTC)
"""A Wednesday."""


def stretch(query: str, now: datetime = NOW) -> str | None:
    """Start and end as days, with the hour where it is not midnight; ``..`` where it is open."""
    expression = time_expression(query, now)
    return None if expression is None else f"{_day(expression.start)} {_day(expression.end)}"


def _day(moment: datetime | None) -> str:
    if moment is None:
        return ".."
    return f"{moment:%Y-%m-%d}" if moment.hour == moment.minute == 0 else f"{moment:%Y-%m-%dT%H:%M}"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("what happened today?", "2026-11-18 2026-11-19"),
        ("yesterday's standup", "2026-11-17 2026-11-18"),
        ("Yesterday’s standup", "2026-11-17 2026-11-18"),
        ("the day before yesterday", "2026-11-16 2026-11-17"),
        ("yesterday evening", "2026-11-17T18:00 2026-11-18"),
        ("last night", "2026-11-17T18:00 2026-11-18T06:00"),
        ("this morning", "2026-11-18T05:00 2026-11-18T12:00"),
        ("tonight", "2026-11-18T18:00 2026-11-19T06:00"),
        ("due tomorrow", "2026-11-19 2026-11-20"),
        ("last week", "2026-11-09 2026-11-16"),
        ("this week", "2026-11-16 2026-11-23"),
        ("next week's plan", "2026-11-23 2026-11-30"),
        ("the week before last", "2026-11-02 2026-11-09"),
        ("last weekend", "2026-11-14 2026-11-16"),
        ("last month", "2026-10-01 2026-11-01"),
        ("last quarter", "2026-07-01 2026-10-01"),
        ("this year", "2026-01-01 2027-01-01"),
        ("two days ago", "2026-11-16 2026-11-17"),
        ("a week ago", "2026-11-09 2026-11-16"),
        ("a couple of months ago", "2026-09-01 2026-10-01"),
        ("3 years ago", "2023-01-01 2024-01-01"),
        ("a few days ago", "2026-11-13 2026-11-17"),
        ("in the last 3 days", "2026-11-15 2026-11-19"),
        ("over the past week", "2026-11-11 2026-11-19"),
        ("the past 24 hours", "2026-11-17T15:30 2026-11-18T15:30"),
        ("last hour", "2026-11-18T14:30 2026-11-18T15:30"),
        ("next hour", "2026-11-18T15:30 2026-11-18T16:30"),
        ("the last few months", "2026-06-18 2026-11-19"),
        ("in the past couple of weeks", "2026-11-04 2026-11-19"),
        ("the next two weeks", "2026-11-18 2026-12-03"),
        ("last Friday", "2026-11-13 2026-11-14"),
        ("last Wednesday", "2026-11-11 2026-11-12"),
        ("on Wednesday", "2026-11-18 2026-11-19"),
        ("on Tuesday morning", "2026-11-17T05:00 2026-11-17T12:00"),
        ("next Monday", "2026-11-23 2026-11-24"),
        ("last March", "2026-03-01 2026-04-01"),
        ("last December", "2025-12-01 2026-01-01"),
        ("next May", "2027-05-01 2027-06-01"),
        ("last summer", "2026-06-01 2026-09-01"),
        ("last winter", "2025-12-01 2026-03-01"),
        ("this winter", "2026-12-01 2027-03-01"),
        ("next autumn", "2027-09-01 2027-12-01"),
    ],
)
def test_expressions_relative_to_now_are_understood(query: str, expected: str) -> None:
    """Days, calendar weeks from Monday, months and years, parts of days, and what rolls up to today."""
    assert stretch(query) == expected
    expression = time_expression(query, NOW)
    assert expression is not None
    assert expression.certainty is Certainty.RELATIVE


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("in March", "2026-03-01 2026-04-01"),
        ("in december", "2025-12-01 2026-01-01"),
        ("in May 2023", "2023-05-01 2023-06-01"),
        ("May, 2023", "2023-05-01 2023-06-01"),
        ("on 5 May 2023", "2023-05-05 2023-05-06"),
        ("on the 5th of May, 2023", "2023-05-05 2023-05-06"),
        ("May 3, 2023", "2023-05-03 2023-05-04"),
        ("December 1,2023", "2023-12-01 2023-12-02"),
        ("on Aug 15th", "2026-08-15 2026-08-16"),
        ("on 20 December", "2025-12-20 2025-12-21"),
        ("2023-05-03", "2023-05-03 2023-05-04"),
        ("in 2023-05", "2023-05-01 2023-06-01"),
        ("what happened 2023-05?", "2023-05-01 2023-06-01"),
        ("2023/5/8", "2023-05-08 2023-05-09"),
        ("in 05/2023.", "2023-05-01 2023-06-01"),
        ("on 5/8/2023", "2023-05-08 2023-05-09"),
        ("05-08-2023", "2023-05-08 2023-05-09"),
        ("25/8/2023", "2023-08-25 2023-08-26"),
        ("8/25/2023", "2023-08-25 2023-08-26"),
        ("am 8.5.2023", "2023-05-08 2023-05-09"),
        ("between 5/8/2023 and 5/12/2023", "2023-05-08 2023-05-13"),
        ("the week of 5/10/2023", "2023-05-08 2023-05-15"),
        ("Q3 2025", "2025-07-01 2025-10-01"),
        ("in q3, 2025", "2025-07-01 2025-10-01"),
        ("2025-Q3", "2025-07-01 2025-10-01"),
        ("Q3/2025", "2025-07-01 2025-10-01"),
        ("the third quarter of 2025", "2025-07-01 2025-10-01"),
        ("last quarter of 2025", "2025-10-01 2026-01-01"),
        ("in Q2", "2026-04-01 2026-07-01"),
        ("between Q1 and Q3 2025", "2025-01-01 2025-10-01"),
        ("in 2022", "2022-01-01 2023-01-01"),
        ("summer of 2021", "2021-06-01 2021-09-01"),
        ("winter 2021", "2021-12-01 2022-03-01"),
        ("during the summer", "2026-06-01 2026-09-01"),
        ("since June", "2026-06-01 .."),
        ("after May 2023", "2023-06-01 .."),
        ("before 2022", ".. 2022-01-01"),
        ("until the end of May 2023", ".. 2023-06-01"),
        ("as of December 2023", ".. 2024-01-01"),
        ("between August 11 and August 15 2023", "2023-08-11 2023-08-16"),
        ("between 3 and 5 May", "2026-05-03 2026-05-06"),
        ("from the 3rd to the 5th of May 2023", "2023-05-03 2023-05-06"),
        ("3–5 May 2023", "2023-05-03 2023-05-06"),
        ("May 5 to 7", "2026-05-05 2026-05-08"),
        ("between December 20 and 22", "2025-12-20 2025-12-23"),
        ("Aug 28-30, 2023", "2023-08-28 2023-08-31"),
        ("from May 5 to 7 June 2023", "2023-05-05 2023-06-08"),
        ("on May 5 to 7 hours of work", "2026-05-05 2026-05-06"),
        ("room 7 - 5 May 2023", "2023-05-05 2023-05-06"),
        ("on 29 February", "2024-02-29 2024-03-01"),
        ("from May to July 2023", "2023-05-01 2023-08-01"),
        ("November – January 2023", "2022-11-01 2023-02-01"),
        ("early May 2023", "2023-05-01 2023-05-11"),
        ("mid-May 2023", "2023-05-11 2023-05-22"),
        ("at the end of 2023", "2023-09-01 2024-01-01"),
        ("the first half of September 2022", "2022-09-01 2022-09-16"),
        ("the second week of November", "2026-11-08 2026-11-15"),
        ("the last week of May 2023", "2023-05-25 2023-06-01"),
        ("the first weekend of August 2023", "2023-08-05 2023-08-07"),
        ("the last weekend of August 2023", "2023-08-26 2023-08-28"),
        ("the week of 23 August 2023", "2023-08-21 2023-08-28"),
        ("the week before 16 November 2023", "2023-11-09 2023-11-16"),
        ("two weeks before August 11, 2023", "2023-07-24 2023-07-31"),
        ("the Monday before July 24, 2023", "2023-07-17 2023-07-18"),
        ("the Saturday after October 28, 2023", "2023-11-04 2023-11-05"),
        ("the weekend before 4th October, 2023", "2023-09-30 2023-10-02"),
        ("the weekend after 4th October, 2023", "2023-10-07 2023-10-09"),
        ("the day after May 3, 2023", "2023-05-04 2023-05-05"),
    ],
)
def test_expressions_by_the_calendar_are_understood(query: str, expected: str) -> None:
    """Days, months, seasons and years, with their prepositions; without a year the latest that has begun."""
    assert stretch(query) == expected
    expression = time_expression(query, NOW)
    assert expression is not None
    assert expression.certainty is Certainty.DATED


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("what did we discuss recently?", "2026-10-19 2026-11-19"),
        ("the latest invoices", "2026-10-19 2026-11-19"),
        ("have we seen this before?", ".. 2026-11-18"),
    ],
)
def test_vague_words_are_a_soft_signal(query: str, expected: str) -> None:
    """They give a stretch, and say that it is a hint only."""
    assert stretch(query) == expected
    expression = time_expression(query, NOW)
    assert expression is not None
    assert expression.is_soft


@pytest.mark.parametrize(
    "query",
    [
        "",
        "it may rain",
        "a book by May",
        "a march on the city",
        "flat 1984",
        "before meeting Maria",
        "after the race",
        "a one-year-old",
        "her last name",
        "31 February 2023",
        "on Fridays",
        "spring water",
        "hurt in the fall of the tower",
        "9999 years ago",
        "year-round",
        "the Second Day",
        "version 2023.1",
        "version 1.5.8.2023",
        "13/13/2023",
        "2/30/2023",
        "5/8",
        "5/8/23",
        "1/5/8/2023",
        "call 5-8-2023-11",
        "an Audi Q3",
        "Q5 2025",
        "the first quarter of the game",
    ],
)
def test_texts_without_a_time_are_left_alone(query: str) -> None:
    """Names, other meanings of the same words, and dates that no calendar has."""
    assert stretch(query) is None


def test_the_most_definite_expression_counts() -> None:
    """A date wins over "last week", which wins over "recently"; several of one kind reach from first to last."""
    assert stretch("his huge problem last week, as mentioned on November 6, 2023") == "2023-11-06 2023-11-07"
    assert stretch("what I recently bought, last week") == "2026-11-09 2026-11-16"
    assert stretch("compare May 2023 with July 2023") == "2023-05-01 2023-08-01"
    assert stretch("since May 2023 and before August 2023") == "2023-05-01 2023-08-01"


def test_each_expression_is_given_as_it_stands() -> None:
    """In the query's own words and order."""
    expressions = time_expressions("Recently, or on the Monday before July 24, 2023?", NOW)
    assert [expression.text for expression in expressions] == ["Recently", "the Monday before July 24, 2023"]


def test_days_are_those_of_the_zone_of_now() -> None:
    """At the same moment it is another day elsewhere, and a day of change has 23 hours."""
    zone = ZoneInfo("Europe/Berlin")
    expression = time_expression("yesterday", datetime(2026, 3, 30, 0, 30, tzinfo=zone))
    assert expression is not None
    assert expression.start == datetime(2026, 3, 29, tzinfo=zone)
    assert expression.end == datetime(2026, 3, 30, tzinfo=zone)
    elapsed = expression.end.astimezone(UTC) - expression.start.astimezone(UTC)
    assert elapsed == timedelta(hours=23)
    assert stretch("today", NOW.astimezone(timezone(timedelta(hours=9)))) == "2026-11-19 2026-11-20"


def test_hours_are_counted_as_they_pass() -> None:
    """Three hours back across a change of the clocks are three hours."""
    zone = ZoneInfo("Europe/Berlin")
    expression = time_expression("in the last 3 hours", datetime(2026, 3, 29, 4, tzinfo=zone))
    assert expression is not None
    assert expression.start == datetime(2026, 3, 29, 0, tzinfo=zone)


def test_now_needs_a_zone() -> None:
    """Without one the day is unknown."""
    with pytest.raises(InvalidRequestError, match="time zone"):
        time_expressions("yesterday", NOW.replace(tzinfo=None))


@pytest.mark.parametrize("query", ["what did we do 9999 years before 2020", "9999 years following May 2024"])
def test_times_beyond_the_calendar_are_ignored(query: str) -> None:
    """It is not an error either."""
    assert time_expression(query, NOW) is None


WORDS = (
    "last week may in 5 2023 ago two before since the of friday 31 first february between and 9999 years next half "
    "following 2020 İ ’s - , q3 quarter 5/8/2023 31.2.2023 2023-13"
)


@given(st.lists(st.sampled_from(WORDS.split()), max_size=12).map(" ".join), st.datetimes(timezones=st.just(UTC)))
def test_no_expression_raises_an_error(query: str, now: datetime) -> None:
    """Each expression is a part of the query, and a closed range starts before it ends."""
    for expression in time_expressions(query, now):
        assert expression.text in query
        assert expression.start is None or expression.end is None or expression.start < expression.end
