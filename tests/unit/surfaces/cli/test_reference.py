"""The reference of the command line is written from the program."""

from __future__ import annotations

from pathlib import Path

from retrieval.surfaces.cli.errors import EXIT_MEANINGS
from scripts.cli_reference import reference

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "cli.md"


def test_the_page_is_what_the_program_says() -> None:
    """Otherwise run: python scripts/cli_reference.py."""
    assert PAGE.read_text(encoding="utf-8") == reference()


def test_the_reference_lists_every_exit_code() -> None:
    """A script needs them."""
    page = reference()
    assert all(f"| {code} | {meaning} |" in page for code, meaning in EXIT_MEANINGS.items())


def test_optional_parts_are_in_paired_brackets() -> None:
    """Also where the argument's own name says so."""
    calls = [line for line in reference().splitlines() if line.startswith("retrieval ") and "[OPTIONS]" in line]
    assert "retrieval feedback [OPTIONS] [RETRIEVAL_ID] ITEM_ID..." in calls
    assert [call for call in calls if call.count("[") != call.count("]")] == []
