"""The identifier of a recorded search: a UUID of version 7, which begins with its time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

from retrieval.domain.checks import written
from retrieval.domain.errors import InvalidRequestError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, where Python's times end."""


class Bits(Protocol):
    """A source of random bits, such as ``random.Random``."""

    def getrandbits(self, k: int, /) -> int:
        """A whole number of ``k`` random bits."""
        ...


def uuid7(ms: int, rng: Bits) -> UUID:
    """A UUID of version 7 (RFC 9562, 5.7): 48 bits of milliseconds since 1970, then 74 random ones."""
    return UUID(
        int=(ms & 0xFFFF_FFFF_FFFF) << 80 | 7 << 76 | rng.getrandbits(12) << 64 | 0b10 << 62 | rng.getrandbits(62)
    )


def time_of(retrieval_id: UUID) -> datetime:
    """The moment in the identifier, in UTC, to the millisecond; arbitrary for a UUID of another version."""
    return _EPOCH + timedelta(milliseconds=min(retrieval_id.int >> 80, _LATEST_MS))


def checked_id(retrieval_id: UUID | str | None) -> UUID:
    """The identifier. Raises ``InvalidRequestError`` for anything but a UUID."""
    try:
        return retrieval_id if isinstance(retrieval_id, UUID) else UUID(retrieval_id)
    except (ValueError, TypeError, AttributeError):
        raise InvalidRequestError(
            f"{written(retrieval_id)} is not a retrieval id; "
            "a recorded search's result has it in retrieval_id, as a UUID"
        ) from None
