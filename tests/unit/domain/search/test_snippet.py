"""Snippets: the selected part of a text, and its highlights."""

from __future__ import annotations

import pytest

from retrieval.domain.search.snippet import MARKS, Snippet, snippet_of


def marked(text: str) -> str:
    """The text with marks in place of brackets."""
    return text.replace("[", MARKS[0]).replace("]", MARKS[1])


def test_a_short_text_is_shown_whole() -> None:
    """Without ellipses."""
    assert snippet_of(marked("a [layer] of air"), "layer", (), 20) == Snippet("a layer of air", ((2, 7),))


@pytest.mark.parametrize("size", [20, 33, 50, 200])
@pytest.mark.parametrize("words", ["", "[one]", "[one] x [two]", "[one] " * 40])
def test_a_snippet_has_at_most_the_requested_characters(size: int, words: str) -> None:
    """The marks lie within the snippet, in order."""
    text = marked("before " * 50 + words + " after" * 50)
    snippet = snippet_of(text, "", (), size)
    assert len(snippet.text.strip("…")) <= size
    assert all(snippet.text[start:end] in {"one", "two"} for start, end in snippet.highlights)
    assert bool(snippet.highlights) == bool(words)
    assert list(snippet.highlights) == sorted(snippet.highlights)


def test_words_are_not_cut_unless_one_is_longer_than_the_snippet() -> None:
    """A text without spaces is cut somewhere."""
    snippet = snippet_of("alpha beta gamma delta epsilon", "", (), 20)
    assert snippet.text == "alpha beta gamma…"
    assert len(snippet_of("x" * 100, "", (), 20).text) == 21


def test_marks_that_overlap_are_one() -> None:
    """A word may be marked by the database and as a prefix."""
    snippet = snippet_of(marked("[potatoes] potable"), "", ("potat", "po"), 40)
    assert snippet.html == "<mark>potatoes</mark> <mark>potable</mark>"
