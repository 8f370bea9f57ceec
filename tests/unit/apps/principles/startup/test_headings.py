"""Headings of Markdown."""

from __future__ import annotations

from retrieval.apps.principles.startup.project import headings


def test_headings_of_every_level_are_found_without_their_signs() -> None:
    """A sign without a blank, or seven of them, makes none."""
    page = "# Testing\ntext\n## Database access ##\n#tag\n####### seven\n###\tTabs\n"
    assert headings(page) == ["Testing", "Database access", "Tabs"]


def test_what_stands_in_code_is_no_heading() -> None:
    """A comment of a shell script looks like one."""
    assert headings("```sh\n# install\n```\n# Real\n~~~\n# no\n```\n# still no\n~~~\n# Last") == ["Real", "Last"]


def test_a_page_of_headings_is_read_in_part() -> None:
    """At most a hundred."""
    assert len(headings("# one\n" * 1000)) == 100
