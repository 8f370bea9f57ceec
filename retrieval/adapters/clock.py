"""The clocks that a platform is given."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], float]
"""Returns seconds that never decrease; a wall clock: seconds since 1970."""


def moment(seconds: float) -> datetime:
    """The time that many seconds after 1970, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def utc_now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)
