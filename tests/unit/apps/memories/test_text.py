"""A memory's content on one line."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.apps.memories.engine import escaped, format_content, shortened


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ({"key_findings": ["a", "b"], "recommendations": []}, "Key findings: [a, b], Recommendations: []"),
        ({"keyFindings": ["a"], "DNA_yieldOf3": 1, "": 2}, "Key findings: [a], DNA yield of3: 1, : 2"),
        ({"score": 0.5, "is_open": True, "none": None}, "Score: 0.5, Is open: true, None: none"),
        ({"inner": {"of_it": [1, {"x": "y"}]}}, "Inner: (Of it: [1, (X: y)])"),
        (["a", 1], "[a, 1]"),
        ("  two\n\nlines\t", "two lines"),
        (None, ""),
        ("", ""),
    ],
)
def test_content_is_shown_on_one_line(content: Any, line: str) -> None:
    """Mappings as labels with their values, lists in brackets, texts as they are."""
    assert format_content(content) == line


def test_content_that_is_nested_without_end_is_cut() -> None:
    """Depth costs dots, not an error."""
    nested: Any = "deep"
    for _ in range(3000):
        nested = [nested]

    assert format_content(nested) == "[" * 8 + "..." + "]" * 8


@pytest.mark.parametrize(("most", "expected"), [(5, "abcde"), (4, "a..."), (3, "..."), (1, "."), (0, "")])
def test_a_text_is_shortened_to_a_number_of_characters(most: int, expected: str) -> None:
    """The dots count."""
    assert shortened("abcde", most) == expected


def test_signs_of_markdown_lose_their_meaning() -> None:
    """Fences, bold labels, headings and comments get backslashes; a backslash before them does not undo that."""
    assert escaped("```py **Content**: ## x <!-- y") == r"\`\`\`py \*\*Content\*\*: \#\# x \<\!\-\- y"
    assert escaped("\\```") == r"\\\`\`\`"
    assert escaped("a `b` *c* #1 x_y") == "a `b` *c* #1 x_y"


def test_a_text_of_backslashes_is_read_once() -> None:
    """Read again from each backslash, this one would take minutes."""
    backslashes = "\\" * 100_000
    assert escaped(f"{backslashes}x") == f"{backslashes}x"
    assert escaped(f"{backslashes}##") == f"{backslashes * 2}\\#\\#"


def test_control_characters_and_turned_text_are_left_out() -> None:
    """No character is left that controls a terminal or misleads a reader."""
    assert format_content("a\x00\x1b[31mb\u202ec\x85d") == "abc d"
