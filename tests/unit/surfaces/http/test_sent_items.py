"""Items as clients send them."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.domain.errors import InvalidItemError
from retrieval.surfaces.http.json_bodies import sent_item


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"version": "2"}, "'version' is set by the service"),
        ({"created_at": "2026-05-31", "updated_at": "2026-05-31"}, "'created_at' is set by the service"),
        ({"text": "a", "body": "b"}, "two names of one field"),
        ({"metadata": {"a": 1}, "attributes": {"b": 1}}, "two names of one field"),
        ({"attributes": {"a": 1}, "a": 2}, "has different values"),
        ({"embedding": [0.1, 1]}, "'embedding' holds a vector"),
    ],
)
def test_contradictory_members_are_refused(parts: dict[str, Any], reason: str) -> None:
    """The error names the item's id and the remedy; no member is ignored silently."""
    with pytest.raises(InvalidItemError, match=reason) as refused:
        sent_item({"_id": "a", **parts})
    assert refused.value.item_id == "a"


@pytest.mark.parametrize(
    ("parts", "attributes"),
    [
        ({"text": "a", "body": "a"}, {"body": "a"}),
        ({"attributes": {"a": 1}, "a": 1}, {"a": 1}),
        ({"title": "t", "attributes": {"title": "u", "version": "2"}}, {"title": "u", "version": "2"}),
        ({"vector": "north", "embedding": []}, {"vector": "north", "embedding": []}),
        ({"version": None}, {}),
    ],
)
def test_unambiguous_members_are_accepted(parts: dict[str, Any], attributes: dict[str, Any]) -> None:
    """As a line of a file is."""
    assert sent_item({"_id": "a", **parts}).attributes == attributes
