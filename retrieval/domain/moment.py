"""A moment: a time with a zone, which can be said in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def fault_of(value: object) -> str:
    """Why the value is no moment that can be stored and read back in UTC; empty: it is one."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        return "it must be a datetime with a time zone"
    try:
        value.astimezone(UTC)
    except OverflowError:
        return "it must have a UTC value in the years 1 to 9999"
    return ""
