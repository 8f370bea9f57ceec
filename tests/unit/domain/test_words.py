"""The words of texts in any script."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.words import UNSPACED, apart, pairs, terms, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The pump, the PUMP!", {"the", "pump"}),
        ("Gro\u0308ße \uff21\uff22", {"grösse", "ab"}),
        ("日本語", {"日本", "本語"}),
        ("猫 と 犬", {"猫", "と", "犬"}),
        ("iPhoneは新しい", {"iphone", "は新", "新し", "しい"}),
        ("한국어 문장", {"한국", "국어", "문장"}),
        ("दिन, नदी।", {"दिन", "नदी"}),
        ("", set()),
    ],
)
def test_terms_are_words_or_pairs_of_characters(text: str, expected: set[str]) -> None:
    """In lower case, however letters are composed; a single character stands by itself."""
    assert terms(text) == expected


def test_words_keep_their_order() -> None:
    """A run of a script without spaces is one word."""
    assert words("Steel of the 日本語 Bridge") == ["steel", "of", "the", "日本語", "bridge"]


@given(st.text())
def test_nothing_of_a_text_is_lost(text: str) -> None:
    """Each character is in one of the two parts, except the spaces between them."""
    spaced, runs = apart(text)
    assert sorted("".join((spaced + runs).split())) == sorted("".join(text.split()))
    assert pairs(spaced) == set()


def test_the_scripts_are_those_of_lexical_search() -> None:
    """``sql/search/terms.sql`` names the same characters."""
    installed = (Path(__file__).parents[3] / "sql/search/terms.sql").read_text(encoding="utf-8")
    body = re.search(r"FUNCTION unspaced\(\).*?RETURN (.*?);", installed, re.DOTALL)
    assert body is not None
    escaped = "".join(re.findall(r"'([^']*)'", body[1]))
    assert escaped.encode().decode("unicode_escape") == UNSPACED
