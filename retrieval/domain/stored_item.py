"""An item as it is stored: with its version, by which two writers notice each other."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from retrieval.domain.errors import InvalidRequestError, VersionConflictError
from retrieval.domain.item import Item

ABSENT = ""
"""Said for a version: only if there is no such item."""

ANY = "*"
"""Said for a version: only if there is such an item, whatever its version."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_VERSION_BYTES = 12


class Became(StrEnum):
    """What a write made of an item."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    """It was there as it was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem:
    """An item, and since when it is as it is."""

    item: Item
    version: str
    """Another one after every change, 16 letters, digits, ``-`` and ``_``; nothing can be read from it.

    What ``change(keeps_time=True)`` puts back as it was has its former version again: neither content nor time differ.
    """
    created_at: datetime
    updated_at: datetime
    """When it was changed last."""
    became: Became | None = None
    """What the call that gave it made of it; None: it was only read.

    Beside what was there when the call looked: of those who put the same new id at once, each may say ``added``.
    """

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: those of the item, then its version and times."""
        return {
            **self.item.as_dict(),
            "version": self.version,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }


def version_of(content_hash: bytes, updated_at: datetime) -> str:
    """The version of what has that hash since that moment.

    The moment makes that content which comes back after another one is another version too, unless the change back
    kept the time.
    """
    moment = (updated_at - _EPOCH) // _MICROSECOND
    mixed = blake2b(content_hash + moment.to_bytes(8, "big", signed=True), digest_size=_VERSION_BYTES)
    return urlsafe_b64encode(mixed.digest()).decode()


def check_version(item_id: str, found: str | None, wanted: str | None) -> None:
    """Raise ``VersionConflictError`` if the item is not as wanted.

    ``found`` is its version, None where it is not there; ``wanted`` is a version, ``ANY``, ``ABSENT``, or None, which
    takes it however it is. Raises ``InvalidRequestError`` for anything else.
    """
    if wanted is not None and not isinstance(wanted, str):
        raise InvalidRequestError(f"a version is the text that came with the item, not {wanted!r:.80}")
    if wanted is None or (found or ABSENT) == wanted or (wanted == ANY and found is not None):
        return
    if wanted == ABSENT:
        raise VersionConflictError(
            f"item {item_id!r:.80} is there already; read it and give its version to replace it", item_id=item_id
        )
    if found is None:
        raise VersionConflictError(f"there is no item {item_id!r:.80} (any more); add it anew", item_id=item_id)
    raise VersionConflictError(
        f"item {item_id!r:.80} was changed since that version; read it again and repeat the change", item_id=item_id
    )
