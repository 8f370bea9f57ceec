"""The page about errors over HTTP."""

from __future__ import annotations

from pathlib import Path

from scripts.error_reference import error_table

PAGE = Path(__file__).parents[4] / "docs/reference/errors.md"


def test_the_page_describes_every_error() -> None:
    """``python scripts/error_reference.py`` writes it."""
    assert PAGE.read_text(encoding="utf-8").endswith(error_table())
