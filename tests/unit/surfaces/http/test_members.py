"""The members that a part of a body may have."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.surfaces.http.json_bodies import members_at
from retrieval.surfaces.http.routes.learning import FeedbackBatch, FeedbackEvent
from retrieval.surfaces.http.routes.search import SearchBody


@pytest.mark.parametrize(
    ("kind", "place", "names"),
    [
        (SearchBody, [], list(SearchBody.model_fields)),
        (SearchBody | None, ["context"], ["domain", "complexity", "actor", "session", "backtracks", "generated"]),
        (FeedbackBatch, ["events", 3], list(FeedbackEvent.model_fields)),
        (FeedbackBatch, ["events", 3, "note"], []),
        (None, [], []),
    ],
)
def test_members_are_found_in_the_models(kind: Any, place: list[str | int], names: list[str]) -> None:
    """They include members of lists and optional members."""
    assert members_at(kind, place) == names
