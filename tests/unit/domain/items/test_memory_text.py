"""The text of a content, and when two texts say nearly the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from retrieval.domain.items.memory import extract_text, normalised, readable
from retrieval.domain.search.diversity import THRESHOLD, jaccard, similarity


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("as it\nstands ", "as it\nstands "),
        ({"keyFindings": ["a", "b"], "next_steps": {"owner": "Ann"}},
         "key findings: a\nkey findings: b\nnext steps owner: Ann"),
        ([1, 2.5, True, False, None, ""], "1\n2.5\nyes\nno"),
        ({"at": datetime(2026, 5, 1, tzinfo=UTC), "x": None, "empty": {}}, "at: 2026-05-01T00:00:00+00:00"),
        ({}, ""),
        (42, "42"),
        ([["deep", {"er": ["est"]}]], "deep\ner: est"),
    ],
)  # fmt: skip
def test_values_are_said_in_order_each_with_its_key(content: Any, text: str) -> None:
    """A line each; nothing for what says nothing."""
    assert extract_text(content) == text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@examples(max_examples=10)
@given(json_values)
def test_every_text_of_a_content_is_in_its_text(content: Any) -> None:
    """Whatever the nesting, no value is lost."""

    def texts(value: Any) -> list[str]:
        if isinstance(value, str):
            return [value]
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        return [text for one in inner for text in texts(one)]

    said = extract_text(content)
    assert all(text in said for text in texts(content) if text.strip())


def test_keys_are_made_readable() -> None:
    """Of several spellings one."""
    assert {readable(key) for key in ("nextSteps", "next_steps", "next-steps", "Next Steps")} == {"next steps"}


def test_what_is_normalised_is_words_alone() -> None:
    """Case, width and signs go; order stays."""
    assert normalised("The BRIDGE,  \uff4f\uff46 steel!") == "the bridge of steel"
    assert normalised("steel of the bridge") != normalised("the bridge of steel")


@pytest.mark.parametrize(
    ("one", "other", "cosine", "least", "most"),
    [
        ("The deploy uses Docker Compose.", "the deploy uses docker compose", None, 1, 1),
        ("The deploy uses Docker Compose.", "Deploy uses Docker Compose", None, 1, 1),
        ("The deploy uses Docker Compose.", "Docker Compose is what we deploy with", None, 0.5, 0.8),
        ("The deploy uses Docker Compose.", "Docker Compose is what we deploy with", 0.93, 0.93, 0.93),
        ("The budget is 500 euros", "The budget is 600 euros", 0.99, 0, 0),
        ("Ann likes tea", "Ann does not like tea", 0.95, 0, 0),
        ("Ann doesn't like tea", "Ann does not like tea", 0.95, 0.95, 0.95),
        ("?", "!", None, 0, 0),
        ("?", "?", None, 1, 1),
        ("red car", "blue bus", -0.3, 0, 0),
    ],
)
def test_similarity_is_of_words_or_vectors_and_of_facts(
    one: str, other: str, cosine: float | None, least: float, most: float
) -> None:
    """Other numbers, or a no on one side, are another statement, however alike the rest is."""
    assert least <= similarity(one, other, cosine) <= most
    assert similarity(other, one, cosine) == similarity(one, other, cosine)


def test_the_overlap_of_words_counts_each_once() -> None:
    """Shared words / all words, without the stop words."""
    assert jaccard({"the", "red", "car"}, {"a", "red", "bus"}) == pytest.approx(1 / 3)
    assert jaccard({"the"}, {"a"}) == 0
    assert 0 < THRESHOLD <= 1
