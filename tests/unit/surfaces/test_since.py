"""``--since``: valid and invalid values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.since import age_or_time, since_of, time_of

NOW = datetime(2026, 3, 8, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("7d", NOW - timedelta(days=7)),
        ("24h", NOW - timedelta(hours=24)),
        ("2w", NOW - timedelta(weeks=2)),
        (" 30m ", NOW - timedelta(minutes=30)),
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-01T10:00+02:00", datetime(2026, 3, 1, 10, tzinfo=timezone(timedelta(hours=2)))),
    ],
)
def test_ages_and_moments_are_understood(text: str, moment: datetime) -> None:
    """A moment without a zone is UTC's."""
    assert since_of(text, NOW) == moment


@pytest.mark.parametrize("text", ["", "yesterday", "7", "-7d", "7y", "2026-13-01", "999999w"])
def test_anything_else_is_refused(text: str) -> None:
    """With what to write instead; for the end of a period, that is a date or a time alone."""
    with pytest.raises(InvalidRequestError, match=r"--since .*write a date such as 2026-03-01 or an age such as 7d"):
        since_of(text, NOW)
    with pytest.raises(InvalidRequestError, match="cannot read --since"):
        age_or_time(text)
    with pytest.raises(InvalidRequestError, match=r"--until .*write a date such as 2026-03-01$"):
        time_of("--until", text)


def test_an_age_can_be_had_as_a_length_of_time() -> None:
    """For what counts it from another moment than now."""
    assert age_or_time("30m") == timedelta(minutes=30)
    assert age_or_time("2026-03-01") == datetime(2026, 3, 1, tzinfo=UTC)


def test_a_time_to_come_is_read_like_one_that_was_and_named_by_its_option() -> None:
    """``--expires 90d`` is so long from now."""
    assert age_or_time("90d", option="--expires") == timedelta(days=90)
    with pytest.raises(InvalidRequestError, match=r"cannot read --expires 'soon': .* a time from now such as 90d"):
        age_or_time("soon", option="--expires")
