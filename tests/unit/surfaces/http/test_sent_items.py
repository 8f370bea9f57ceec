"""Items as clients send them."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.surfaces.http.json_bodies import sent_item


@pytest.mark.parametrize(
    ("parts", "attributes"),
    [
        ({"text": "a", "body": "a"}, {"body": "a"}),
        ({"attributes": {"a": 1}, "a": 1}, {"a": 1}),
        ({"title": "t", "attributes": {"title": "u", "version": "2"}}, {"title": "u", "version": "2"}),
        ({"vector": "north", "embedding": []}, {"vector": "north", "embedding": []}),
        ({"version": "2"}, {"version": "2"}),
        ({"metadata": {"a": 1}, "version": "2", "created_at": "x", "updated_at": "x"}, {"a": 1}),
    ],
)
def test_members_are_read(parts: dict[str, Any], attributes: dict[str, Any]) -> None:
    """As a line of a file is; what the service added is left out."""
    assert sent_item({"_id": "a", **parts}).attributes == attributes
