"""Reciprocal rank fusion of lists of entities."""

from __future__ import annotations

from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.apps.recall import DualRetriever, Entity
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.hit import Explanation, Hit

RETRIEVER = DualRetriever(SimpleNamespace(search=print), None)  # type: ignore[arg-type]
"""Merging asks no storage."""


def entity(item_id: str) -> Entity:
    """One that was found with some score."""
    return Entity.of(Hit(item_id=item_id, score=0.5, rank=1, explanation=Explanation("rrf", ()), title=item_id.upper()))


def entities(ids: str) -> list[Entity]:
    """One for each letter."""
    return [entity(item_id) for item_id in ids]


def test_the_score_is_the_sum_of_reciprocal_ranks() -> None:
    """1 / (k + rank) for each list, shown in the explanation."""
    merged = RETRIEVER.merge_rrf(entities("abc"), entities("cb"))
    scores = {entity.id: entity.score for entity in merged}
    assert scores == pytest.approx({"b": 2 / 62, "c": 1 / 63 + 1 / 61, "a": 1 / 61})
    assert [entity.id for entity in merged] == ["c", "b", "a"]
    assert [part.leg for part in merged[0].explanation.contributions] == ["list:1", "list:2"]
    assert merged[0].score == pytest.approx(merged[0].explanation.score)
    assert merged[0].name == "C"


def test_k_can_be_chosen() -> None:
    """A small one lets the first places count for more."""
    (only,) = RETRIEVER.merge_rrf(entities("a"), k=1)
    assert only.score == pytest.approx(1 / 2)


def test_equal_scores_are_ordered_by_id() -> None:
    """The order of the lists does not matter."""
    assert [entity.id for entity in RETRIEVER.merge_rrf(entities("b"), entities("a"))] == ["a", "b"]


def test_nothing_merges_to_nothing() -> None:
    """No lists, or empty ones."""
    assert RETRIEVER.merge_rrf() == RETRIEVER.merge_rrf([], []) == []


def test_a_repeated_id_counts_once() -> None:
    """Its first position counts."""
    assert RETRIEVER.merge_rrf(entities("aba")) == RETRIEVER.merge_rrf(entities("ab"))


@pytest.mark.parametrize("k", [0, -1, True, 1.5, float("nan"), "60", None])
def test_k_must_be_a_whole_number_above_0(k: Any) -> None:
    """The error names it."""
    with pytest.raises(InvalidRequestError, match="k is"):
        RETRIEVER.merge_rrf(entities("a"), k=k)


@pytest.mark.parametrize("lists", [("ab",), ([1],), (None,)])
def test_only_lists_of_entities_are_merged(lists: Any) -> None:
    """Anything else is refused."""
    with pytest.raises(InvalidRequestError, match="entities"):
        RETRIEVER.merge_rrf(*lists)


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True).map("".join), max_size=4), st.integers(1, 100))
def test_merging_follows_the_formula(lists: list[str], k: int) -> None:
    """Each id once, best first."""
    expected = {
        item_id: sum(1 / (k + ids.index(item_id) + 1) for ids in lists if item_id in ids)
        for item_id in set(chain.from_iterable(lists))
    }
    merged = RETRIEVER.merge_rrf(*map(entities, lists), k=k)
    assert {entity.id: entity.score for entity in merged} == pytest.approx(expected)
    assert [entity.score for entity in merged] == sorted((entity.score for entity in merged), reverse=True)


def test_entities_that_no_search_found_are_merged_too() -> None:
    """Each with the score and the explanation of its place."""
    ann, ben = Entity(name="Ann", content="Tea."), Entity(name="Ben", content="Coffee.")
    merged = RETRIEVER.merge_rrf([ann, ben], [ben])
    assert [(entity.id, entity.name, entity.content) for entity in merged] == [
        (ben.id, "Ben", "Coffee."),
        (ann.id, "Ann", "Tea."),
    ]
    assert merged[0].score == pytest.approx(1 / 62 + 1 / 61)
    assert merged[0].score == pytest.approx(merged[0].explanation.score)
    assert (ann.score, ann.hit, ann.explanation.contributions) == (0.0, None, ())
