"""The plan: which legs run, by which path, and what the caller is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retrieval.adapters.store.candidates import match_budget
from retrieval.adapters.store.collections import StoredCollection
from retrieval.adapters.store.spaces import StoredSpace
from retrieval.domain.embedding import EmbeddingSpace
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.filters import Filter, parse_where
from retrieval.domain.hit import Path
from retrieval.domain.profile import LegName, Profile
from retrieval.engine.plan import Plan, make_plan

SMALL = StoredCollection(
    collection_id=7,
    name="notes",
    text_search_config="english",
    profile=Profile(),
    profile_version=1,
    space=StoredSpace(3, EmbeddingSpace(provider="test", model="m", dimensions=8)),
    documents=100,
    has_hnsw=False,
    attributes={},
)
LARGE = replace(SMALL, documents=50_000, has_hnsw=True)


def plan(
    collection: StoredCollection,
    *,
    profile: Profile | None = None,
    has_words: bool = True,
    vector_note: str | None = None,
    condition: Filter | None = None,
    limit: int = 10,
) -> Plan:
    """A plan with what most tests take for granted."""
    return make_plan(
        collection,
        profile or Profile(),
        has_words=has_words,
        vector_note=vector_note,
        condition=condition,
        limit=limit,
    )


def test_a_small_collection_is_searched_exactly() -> None:
    """Without an index every vector is compared."""
    assert plan(SMALL).path is Path.EXACT


def test_a_large_collection_walks_its_index() -> None:
    """And the answer says so."""
    made = plan(LARGE)
    assert (made.path, made.request.path) == (Path.APPROXIMATE, Path.APPROXIMATE)
    assert "HNSW index is walked" in made.why


def test_a_filter_makes_the_search_exact() -> None:
    """So that no page comes back short, whatever the filter."""
    assert plan(LARGE, condition=parse_where({"kind": "x"})).path is Path.EXACT


def test_a_lexical_search_has_no_dense_path() -> None:
    """There is nothing to be exact or approximate about."""
    assert plan(SMALL, profile=Profile(legs={LegName.LEXICAL: 1.0})).path is Path.NONE


def test_a_leg_that_cannot_run_is_left_out_and_told() -> None:
    """The other leg answers."""
    made = plan(SMALL, vector_note="the embedder is down")
    assert made.request.legs == (LegName.LEXICAL,)
    assert made.notes == ("the embedder is down",)
    made = plan(SMALL, has_words=False)
    assert made.request.legs == (LegName.DENSE,)
    assert "no words" in made.notes[0]


def test_when_no_leg_can_run_the_reason_is_the_error() -> None:
    """Rather than an empty page."""
    with pytest.raises(InvalidRequestError, match="the embedder is down"):
        plan(SMALL, profile=Profile(legs={LegName.DENSE: 1.0}), vector_note="the embedder is down")


def test_a_leg_with_weight_zero_does_not_run() -> None:
    """It could add nothing."""
    assert plan(SMALL, profile=Profile(legs={LegName.DENSE: 0.0, LegName.LEXICAL: 1.0})).request.legs == (
        LegName.LEXICAL,
    )


@pytest.mark.parametrize(("limit", "depth"), [(10, 100), (500, 500)])
def test_each_leg_brings_at_least_as_many_candidates_as_hits_are_wanted(limit: int, depth: int) -> None:
    """A page of 500 is not made of 100 candidates."""
    assert plan(SMALL, limit=limit).request.depth == depth


@pytest.mark.parametrize(("documents", "budget"), [(0, 2_500), (5_183, 2_500), (50_000, 10_000), (10**7, 20_000)])
def test_the_lexical_budget_is_a_fifth_within_bounds(documents: int, budget: int) -> None:
    """Small collections are searched whole, large ones at a bounded cost."""
    assert match_budget(documents) == budget
