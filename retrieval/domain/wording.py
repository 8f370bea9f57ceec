"""Numbers, durations and sizes as messages write them. Pure."""

from __future__ import annotations

GIGABYTE = 1 << 30
MEGABYTE = 1 << 20


def duration(seconds: float) -> str:
    """``42 seconds``, ``12 minutes``, ``3 hours``, ``2 days``."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}s"
    return f"{seconds:,.0f} seconds"


def size(number: float) -> str:
    """``12 MB``, ``3.4 GB``."""
    return f"{number / GIGABYTE:,.1f} GB" if number >= GIGABYTE else f"{number / MEGABYTE:,.0f} MB"


def several(number: int, noun: str) -> str:
    """``1 item``, ``1,200 items``, ``2 queries``, ``3 searches``, ``4 indexes``."""
    return f"{number:,} {noun if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("ch", "x")) else f"{noun}s"
