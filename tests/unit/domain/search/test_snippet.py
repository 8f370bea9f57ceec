"""Snippets: the selected part of a text, and its highlights."""

from __future__ import annotations

import re
import time

import pytest

from retrieval.domain.search.snippet import MARKS, Snippet, snippet_of


def texts(text: str) -> tuple[str, str]:
    """The text without its brackets, and with marks in place of them."""
    return re.sub(r"[\[\]]", "", text), text.replace("[", MARKS[0]).replace("]", MARKS[1])


def test_a_snippet_shows_the_text_and_not_what_the_database_reads() -> None:
    """The database reads other characters in some places."""
    read = texts("in [java] io [IOException] thrown")[1]
    snippet = snippet_of("in java.io.IOException thrown", read, "java", (), 40)
    assert snippet.html == "in <mark>java</mark>.io.<mark>IOException</mark> thrown"


def test_a_short_text_is_shown_whole() -> None:
    """Without ellipses."""
    assert snippet_of(*texts("a [layer] of air"), "layer", (), 20) == Snippet("a layer of air", ((2, 7),))


@pytest.mark.parametrize("size", [20, 33, 50, 200])
@pytest.mark.parametrize("words", ["", "[one]", "[one] x [two]", "[one] " * 40])
def test_a_snippet_has_at_most_the_requested_characters(size: int, words: str) -> None:
    """The marks lie within the snippet, in order."""
    text = texts("before " * 50 + words + " after" * 50)
    snippet = snippet_of(*text, "", (), size)
    assert len(snippet.text.strip("…")) <= size
    assert all(snippet.text[start:end] in {"one", "two"} for start, end in snippet.highlights)
    assert bool(snippet.highlights) == bool(words)
    assert list(snippet.highlights) == sorted(snippet.highlights)


def test_words_are_not_cut_unless_one_is_longer_than_the_snippet() -> None:
    """A text without spaces is cut somewhere."""
    snippet = snippet_of("alpha beta gamma delta epsilon", "", "", (), 20)
    assert snippet.text == "alpha beta gamma…"
    assert len(snippet_of("x" * 100, "", "", (), 20).text) == 21


def test_marks_that_overlap_are_one() -> None:
    """A word may be marked by the database and as a prefix."""
    snippet = snippet_of(*texts("[potatoes] potable"), "", ("potat", "po"), 40)
    assert snippet.html == "<mark>potatoes</mark> <mark>potable</mark>"


def test_a_prefix_with_a_sign_is_marked_whole() -> None:
    """The longest of the prefixes that begin a word counts."""
    assert snippet_of("log-rotation off", "", "", ("log", "log-rot"), 40).html == "<mark>log-rotation</mark> off"
    assert snippet_of("हिन्दी, दीन", "", "", ("हिन्", "दी"), 40).html == "<mark>हिन्दी</mark>, <mark>दीन</mark>"


def test_repeated_characters_are_marked_whole() -> None:
    """Pairs that overlap are one mark."""
    assert snippet_of("人人人 山", "", "人人", (), 40).html == "<mark>人人人</mark> 山"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (texts("[x] " * 10_000), "x"),
        (("\u4e00\u4e01" * 10_000, ""), "".join(map(chr, range(0x4E00, 0x4E00 + 10_000)))),
    ],
)
def test_a_text_full_of_the_querys_words_takes_no_longer(text: tuple[str, str], words: str) -> None:
    """The time grows with the text's length, not with the number of marks in a snippet, or of words in the query."""
    began = time.process_time()
    assert snippet_of(*text, words, (), 2000).highlights
    assert time.process_time() - began < 0.5
