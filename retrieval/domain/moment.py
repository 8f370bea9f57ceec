"""A moment: a time with a zone, which can be said in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_FARTHEST = timedelta(hours=16)
"""PostgreSQL reads no zone that is so far from UTC; on Earth it is 14 hours at most."""


def fault_of(value: object) -> str:
    """Why the value is no moment that can be stored and read back in UTC; empty: it is one."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        return "it must be a datetime with a time zone"
    if abs(value.utcoffset() or timedelta()) >= _FARTHEST:
        return "its time zone must be less than 16 hours from UTC"
    try:
        value.astimezone(UTC)
    except OverflowError:
        return "it must have a UTC value in the years 1 to 9999"
    return ""
