"""JSON merge patches."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.domain.errors import InvalidItemError
from retrieval.domain.items.item import checked_changes, merged


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        # The cases of RFC 7396, appendix A.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_patch_changes_what_it_names(target: Any, patch: Any, expected: Any) -> None:
    """Null takes away, an object goes deeper, anything else takes the place of what was there."""
    assert merged(target, patch) == expected


def test_the_target_stays_as_it_was() -> None:
    """The result is another value."""
    target: dict[str, Any] = {"a": {"b": 1}}
    merged(target, {"a": {"b": 2}})
    assert target == {"a": {"b": 1}}


def test_a_bottomless_patch_is_refused() -> None:
    """Before Python's own stack would end."""
    patch: dict[str, Any] = {}
    for _ in range(5000):
        patch = {"a": patch}
    with pytest.raises(InvalidItemError, match="deeper than 64 levels"):
        merged({}, patch)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([], "changes are an object"),
        ({"colour": "red"}, "an item has no 'colour'"),
        ({"item_id": "b"}, "an item keeps its id"),
        ({"attributes": 3}, "attributes must be an object"),
    ],
)
def test_changes_name_fields_of_an_item(changes: Any, said: str) -> None:
    """What is none, or would make it another item, is refused with the item's id."""
    with pytest.raises(InvalidItemError, match=said) as raised:
        checked_changes("a", changes)
    assert raised.value.item_id == "a"


def test_changes_may_repeat_the_id() -> None:
    """As who sends back what was read does."""
    assert checked_changes("a", {"item_id": "a", "title": "t"}) == {"item_id": "a", "title": "t"}
