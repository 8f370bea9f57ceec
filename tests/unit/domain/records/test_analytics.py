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
