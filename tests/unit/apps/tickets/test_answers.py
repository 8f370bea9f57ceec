"""The description of a found ticket."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from retrieval.apps.tickets.answers import similar_ticket
from retrieval.domain.search.hit import Explanation, Hit

JANUARY = datetime(2026, 1, 1, tzinfo=UTC)
FEBRUARY = datetime(2026, 2, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("attributes", "resolution"),
    [
        ({"resolved_at": " 2026-01-02T00:00:00Z "}, "restart"),
        ({"resolved_at": "2026-03-01"}, None),
        ({"resolution_time_hours": 5}, "restart"),
        ({"resolution_time_hours": -5}, "restart"),
        ({"resolution_time_hours": 1000}, None),
        ({"resolution_time_hours": 1e300}, None),
        ({"resolved_at": "some day"}, None),
        ({}, None),
    ],
)
def test_as_of_a_time_only_earlier_resolutions_are_shown(attributes: dict[str, Any], resolution: str | None) -> None:
    """By its time, or by the hours after the ticket's creation; without a moment it is always told."""
    hit = Hit(
        item_id="T-1", score=1.0, rank=1, explanation=Explanation("union", ()), title="", body="", kind="", tags=(),
        attributes={"resolution": "restart", **attributes}, status="active", source="", occurred_at=JANUARY,
    )  # fmt: skip
    as_of = similar_ticket(hit, 1.0, {}, FEBRUARY)
    assert as_of.resolution == resolution
    hours = attributes.get("resolution_time_hours") if resolution else None
    assert (as_of.resolution_time_hours, as_of.resolution_time_known) == (hours or 24.0, hours is not None)
    assert similar_ticket(hit, 1.0, {}, None).resolution == "restart"
