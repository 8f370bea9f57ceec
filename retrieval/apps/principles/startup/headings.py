"""Headings of a Markdown page. Pure."""

from __future__ import annotations

from collections.abc import Iterator

_MOST = 100


def headings(page: str) -> list[str]:
    """The page's first hundred headings, without their signs; what looks like one in a block of code is none."""
    found: list[str] = []
    for line in _outside_of_code(page):
        signs = len(line) - len(line.lstrip("#"))
        if 1 <= signs <= 6 and line[signs : signs + 1] in (" ", "\t"):
            found.append(line[signs:].strip().rstrip("#").strip())
        if len(found) == _MOST:
            break
    return found


def _outside_of_code(page: str) -> Iterator[str]:
    fence = ""
    for line in page.splitlines():
        start = line.lstrip()[:3]
        if start in ("```", "~~~") and fence in ("", start):
            fence = "" if fence else start
        elif not fence:
            yield line
