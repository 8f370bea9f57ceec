"""Turns of conversations as items."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from retrieval.apps.conversations import turn_item
from retrieval.domain.errors import InvalidItemError

MAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def test_a_turn_says_who_spoke_and_when() -> None:
    """In English words, whatever the language of the process."""
    item = turn_item("friends", 1, 3, speaker="Ann", text="Yes!", at=MAY)
    assert (item.item_id, item.title, item.attributes["session"]) == ("friends/1/3", "Ann, 8 May 2023", "friends/1")


def test_slashes_in_names_make_no_two_turns_one() -> None:
    """Sessions neither."""
    names = [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("a", "b%2Fc")]
    items = [turn_item(talk, session, 1, speaker="Ann", text="Yes!", at=MAY) for talk, session in names]
    assert len({item.item_id for item in items}) == len({item.attributes["session"] for item in items}) == 4
    assert items[0].attributes["conversation"] == "a/b"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("conversation", None), ("session", None), ("session", True), ("speaker", None), ("speaker", ""),
        ("turn", None), ("turn", True), ("turn", "1"), ("at", None), ("at", "2023"), ("at", MAY.replace(tzinfo=None)),
        ("at", datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))),
    ],
)  # fmt: skip
def test_an_unknown_field_of_a_turn_is_refused(name: str, value: Any) -> None:
    """The message names it."""
    arguments: dict[str, Any] = {
        "conversation": "c",
        "session": 1,
        "turn": 1,
        "speaker": "Ann",
        "text": "Yes!",
        "at": MAY,
    }
    with pytest.raises(InvalidItemError, match=rf"^{name} is "):
        turn_item(**{**arguments, name: value})
