"""The page about errors over HTTP."""

from __future__ import annotations

from pathlib import Path

from scripts.error_reference import error_table

PAGE = Path(__file__).parents[4] / "docs/reference/errors.md"


def test_the_page_describes_every_error() -> None:
    """``python scripts/error_reference.py`` writes it."""
    assert PAGE.read_text(encoding="utf-8").endswith(error_table())


def test_the_page_says_how_long_to_wait() -> None:
    """Also for the problems whose time is not always the same."""
    rows = [row.split(" | ") for row in error_table().splitlines()]
    waits = {row[0].removeprefix("| `/problems/").rstrip("`"): row[2].strip() for row in rows if len(row) > 3}
    assert waits["overloaded"] == "1 s"
    assert waits["rate-limited"] == "as it says"
    assert waits["idempotency-conflict"] == "1 s while it is in progress"
