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
    assert ViewQuestion(since=NOON, until=NOON).begins(None) == NOON


@pytest.mark.parametrize(("until", "what"), [(None, "before now"), (NOON, "before until")])
def test_an_age_that_reaches_before_all_times_is_refused(until: datetime | None, what: str) -> None:
    """The database could not compute its beginning."""
    with pytest.raises(InvalidRequestError, match=f"{what}, which is before all times"):
        ViewQuestion(since=timedelta.max, until=until)
    assert ViewQuestion(since=timedelta(days=36_500), until=until).until == until
