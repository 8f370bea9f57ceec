"""Entities as they are made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from retrieval.apps.recall import Entity
from retrieval.domain.errors import InvalidItemError

NOW = datetime(2026, 11, 18, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"name": ""}, "name of an entity is ''"),
        ({"name": None}, "name of an entity is None"),
        ({"content": None}, "'text' must be text"),
        ({"content": "a\x00b"}, "NUL"),
        ({"event_time": datetime(2026, 11, 18)}, "with a time zone"),  # noqa: DTZ001 - that is what is refused
        ({"attributes": {"a": object()}}, "JSON cannot hold"),
        ({"attributes": None}, "must be a mapping"),
        ({"id": 7}, "id must be text"),
    ],
)
def test_invalid_values_are_refused_at_construction(options: dict[str, Any], why: str) -> None:
    """By name."""
    with pytest.raises(InvalidItemError, match=why):
        Entity(**{"name": "Ann", "content": "Tea.", **options})


def test_an_entity_without_a_key_gets_one_from_what_it_is() -> None:
    """The same for the same, and another one for each difference."""
    first = Entity("Ann", "Tea.", attributes={"a": 1, "b": 2})
    assert first.id == Entity("Ann", "Tea.", attributes={"b": 2, "a": 1}).id
    others = [
        Entity("Ben", "Tea.", attributes={"a": 1, "b": 2}),
        Entity("Ann", "Tea", attributes={"a": 1, "b": 2}),
        Entity("Ann", "Tea.", attributes={"a": 1}),
        Entity("Ann", "Tea.", "person", attributes={"a": 1, "b": 2}),
        Entity("Ann", "Tea.", event_time=NOW, attributes={"a": 1, "b": 2}),
    ]
    assert len({first.id, *(entity.id for entity in others)}) == 6
    assert Entity("Ann", "Tea.", id="ann").id == "ann"
