"""The prompt for a language model, and the accepted parts of its answer."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.apps.recall.rewriter import REWRITE_LENGTH_MAX, REWRITES_MAX, rewriting_prompt, usable_rewrites

QUERY = "Who do I know at Acme?"


def test_usable_rewrites_are_taken_in_their_order() -> None:
    """As the model gave them, with one space for any white space."""
    assert usable_rewrites(["Acme", " works  at\nAcme "], QUERY) == ["Acme", "works at Acme"]


def test_repeated_rewrites_are_left_out() -> None:
    """The query itself, and what differs in case, space or width only."""
    answer = ["WHO do I  know at acme?", "Acme", "acme", "\uff21\uff43\uff4d\uff45", "works at Acme"]
    assert usable_rewrites(answer, QUERY) == ["Acme", "works at Acme"]


def test_at_most_three_are_taken() -> None:
    """The first."""
    assert usable_rewrites(list("abcde"), QUERY) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "text", ["", " \n", "?!", "a\x00b", "a\x1bb", "\ud800 Acme", "\u202eemcA", "Ac\u200bme", "x" * 201]
)
def test_unusable_rewrites_are_left_out(text: str) -> None:
    """Nothing, no word, control characters, what turns the direction of reading, too long texts."""
    assert usable_rewrites([text], QUERY) == []


@given(st.lists(st.text(max_size=210), max_size=5))
def test_rewrites_are_bounded(answer: list[str]) -> None:
    """Few, short, different, printable on one line, and never the query."""
    rewrites = usable_rewrites(answer, QUERY)
    assert len(rewrites) <= REWRITES_MAX
    assert len({text.casefold() for text in rewrites}) == len(rewrites)
    for text in rewrites:
        assert 0 < len(text) <= REWRITE_LENGTH_MAX
        assert text == " ".join(text.split())
        assert text.encode()


@given(st.text())
def test_the_query_stands_in_the_prompt_as_one_json_string(query: str) -> None:
    """Nothing in it can end the marks around it; a pasted text is cut."""
    prompt = rewriting_prompt(query)
    (data,) = re.findall(r"<query>(.*?)</query>", prompt, re.DOTALL)
    assert json.loads(data) == query[:1000]
    assert re.search("rewrite.*query", prompt, re.IGNORECASE)
