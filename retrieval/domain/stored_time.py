"""Times that attributes hold as texts. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def stored_time(value: object) -> datetime | None:
    """The time that an ISO 8601 text says, in UTC where it names no zone; None where it says none.

    Spaces around it do not count.
    """
    try:
        time = datetime.fromisoformat(value.strip()) if isinstance(value, str) else None
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time
