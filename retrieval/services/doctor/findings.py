"""How checks say what they found."""

from __future__ import annotations

from collections.abc import Iterable

from retrieval.adapters.store.installed_sql import quote_identifier
from retrieval.domain.diagnosis import Finding, Severity

GIGABYTE = 1 << 30
MEGABYTE = 1 << 20


def or_fine(found: Iterable[Finding], check: str, fine: str) -> list[Finding]:
    """The findings; where there are none, one that says that all is as it should be."""
    listed = list(found)
    return listed or [Finding(check=check, severity=Severity.OK, found=fine)]


def qualified(schema: str, name: str) -> str:
    """A relation's name as it stands in SQL, with its schema."""
    return f"{quote_identifier(schema)}.{quote_identifier(name)}"


def duration(seconds: float) -> str:
    """``42 seconds``, ``12 minutes``, ``3 hours``, ``2 days``."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}s"
    return f"{seconds:,.0f} seconds"


def size(number: float) -> str:
    """``12 MB``, ``3.4 GB``."""
    return f"{number / GIGABYTE:,.1f} GB" if number >= GIGABYTE else f"{number / MEGABYTE:,.0f} MB"


def several(number: int, noun: str, nouns: str = "") -> str:
    """``1 item``, ``1,200 items``; ``nouns`` is the plural where it is not formed by an s."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def shell_word(name: str) -> str:
    """A name as it stands in a command."""
    import shlex

    return shlex.quote(name)
