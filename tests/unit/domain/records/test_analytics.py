"""The question to a view of figures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.records.analytics import ViewQuestion

NOON = datetime(2026, 5, 31, 12, tzinfo=UTC)


def test_a_period_ends_after_it_begins() -> None:
    """One that does not would hold nothing, whatever there is."""
    with pytest.raises(InvalidRequestError, match="is after until"):
        ViewQuestion(since=NOON, until=NOON - timedelta(seconds=1))
    assert ViewQuestion(since=NOON, until=NOON).begins(None, NOON) == NOON


@pytest.mark.parametrize(("until", "end"), [(None, "now"), (NOON, "until")])
def test_an_age_before_all_times_is_refused(until: datetime | None, end: str) -> None:
    """The database would say only that a time is out of range."""
    with pytest.raises(InvalidRequestError, match=f"before {end}, which is before all times"):
        ViewQuestion(since=timedelta(days=1_000_000), until=until).begins(None, NOON)
