"""Versions of items: when they are others, and what a writer may say about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from retrieval.domain.errors import InvalidRequestError, VersionConflictError
from retrieval.domain.items.item import ABSENT, ANY, Item, StoredItem, check_version, version_of

THEN = datetime(2024, 5, 31, 12, tzinfo=UTC)


def test_a_version_follows_from_content_and_time() -> None:
    """The same from the same; another for other content, and for the same content that came back later."""
    version = version_of(b"one", THEN)

    assert version == version_of(b"one", THEN)
    assert len({version, version_of(b"two", THEN), version_of(b"one", THEN + timedelta(microseconds=1))}) == 3
    assert len(version) == 16
    assert version.replace("-", "").replace("_", "").isalnum()


def test_times_before_1970_have_versions_too() -> None:
    """No clock makes one fail."""
    assert version_of(b"", datetime(1, 1, 1, tzinfo=UTC)) != version_of(b"", datetime(9999, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(("found", "wanted"), [(None, None), ("v", None), ("v", "v"), (None, ABSENT), ("v", ANY)])
def test_an_item_that_is_as_wanted_passes(found: str | None, wanted: str | None) -> None:
    """However it is, in a version, absent, or there at all."""
    check_version("a", found, wanted)


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        ("v", "w", "was changed since"),
        (None, "w", "there is no item 'a'"),
        (None, ANY, "there is no item 'a'"),
        ("v", ABSENT, "is there already"),
    ],
)
def test_an_item_that_is_not_as_wanted_is_a_conflict(found: str | None, wanted: str, said: str) -> None:
    """The message says what is the matter and what to do, and the error names the item."""
    with pytest.raises(VersionConflictError, match=said) as raised:
        check_version("a", found, wanted)
    assert raised.value.item_id == "a"


def test_a_version_is_a_text() -> None:
    """Anything else is the caller's mistake, and no conflict."""
    with pytest.raises(InvalidRequestError, match="is the text that came with the item"):
        check_version("a", "v", 1)  # type: ignore[arg-type]


def test_plain_values_are_those_of_the_item_and_its_version() -> None:
    """What is given out as JSON."""
    item = Item(item_id="a", title="t", tags=("x",), attributes={"n": 1}, occurred_at=THEN)
    stored = StoredItem(item=item, version="v", created_at=THEN, updated_at=THEN + timedelta(days=1))

    assert stored.as_dict() == {
        "item_id": "a",
        "title": "t",
        "body": "",
        "kind": "",
        "tags": ["x"],
        "attributes": {"n": 1},
        "status": "active",
        "source": "",
        "occurred_at": "2024-05-31T12:00:00+00:00",
        "version": "v",
        "created_at": "2024-05-31T12:00:00+00:00",
        "updated_at": "2024-06-01T12:00:00+00:00",
    }
