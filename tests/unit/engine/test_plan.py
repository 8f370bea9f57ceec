"""The plan: which legs run, by which path, and what the caller is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.candidate_request import StandingWeights
from retrieval.adapters.store.search.indexes import AnnIndex
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.embedding import EmbeddingSpace
from retrieval.domain.search.filters import Filter, parse_where
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import Fusion, FusionKind, LegName, Profile
from retrieval.domain.search.signals import BaseRelevance, Priority, Recency, VectorSimilarity
from retrieval.engine.plan import SearchPlan, make_plan, plan_preferred
from retrieval.engine.request import checked_request, query_vectors

SMALL = StoredCollection(
    collection_id=7,
    name="notes",
    text_search_config="english",
    profile=Profile(),
    profile_version=1,
    space=StoredSpace(3, EmbeddingSpace(provider="test", model="m", dimensions=8)),
    documents=100,
    ann_index=None,
    attributes={},
)
UNION = Fusion(kind=FusionKind.UNION)
LARGE = replace(SMALL, documents=50_000, ann_index=AnnIndex(rows=50_000))


def plan(
    collection: StoredCollection,
    *,
    profile: Profile | None = None,
    has_words: bool = True,
    vector_note: str | None = None,
    condition: Filter | None = None,
    limit: int = 10,
) -> SearchPlan:
    """A plan with what most tests take for granted."""
    request = checked_request(
        "words" if has_words else None,
        vector=None if has_words else [1.0] * 8,
        profile=profile,
        condition=condition,
        limit=limit,
    )
    return make_plan(collection, request, vector_note)


async def test_similarity_without_a_vector_is_noted() -> None:
    """Where no dense leg is asked for either, the note says what the score does without."""
    profile = Profile(legs={"lexical": 1}, fusion=UNION, signals=(VectorSimilarity(weight=1),))
    request = checked_request("words", profile=profile)
    made = await query_vectors(SMALL, None, [request])
    assert made.why_none is not None
    assert made.why_none.startswith("vector_similarity is 0: no embedder for the space")
    assert make_plan(SMALL, request, made.why_none).notes == (made.why_none,)
    assert plan(SMALL, profile=Profile(legs={"lexical": 1}), vector_note=made.why_none).notes == ()


def test_what_is_preferred_is_looked_up_as_deep_as_the_rest() -> None:
    """With a single leg too: the first of it alone would not do where both are merged."""
    profile = Profile(legs={"lexical": 1})
    request = checked_request("words", profile=profile, preferred=parse_where({"n": {"lt": 5}}))
    (narrowed,) = request.narrowed
    first = make_plan(LARGE, request, "no")
    preferred = plan_preferred(LARGE, narrowed, "no", first)
    deep = plan(LARGE, profile=profile, vector_note="no", limit=profile.depth, condition=request.preferred[0]).request
    assert (preferred.depth, preferred.with_items) == (first.request.depth, False)
    assert (preferred.few, preferred.reach) == (deep.few, deep.reach)


def test_a_small_collection_is_searched_exactly() -> None:
    """Without an index every vector is compared, filtered or not."""
    assert plan(SMALL).request.path is Path.EXACT
    assert plan(SMALL, condition=parse_where({"kind": "x"})).request.path is Path.EXACT


def test_a_large_collection_walks_its_index() -> None:
    """With the effort that was measured for so many hits."""
    made = plan(LARGE)
    assert (made.request.path, made.request.few) == (Path.APPROXIMATE, 0)
    assert made.request.effort == AnnIndex().effort_10


def test_under_a_filter_the_statement_chooses_by_how_many_match() -> None:
    """The plan only says up to how many matches are compared, and how far a walk may go."""
    made = plan(LARGE, condition=parse_where({"kind": "x"}))
    assert made.request.path is Path.APPROXIMATE
    assert 0 < made.request.few < LARGE.documents
    assert made.request.reach > made.request.depth


def test_a_search_of_one_leg_asks_for_its_hits_only() -> None:
    """There is nothing to fuse: its candidates are the hits, and come with their texts."""
    made = plan(SMALL, profile=Profile(legs={LegName.LEXICAL: 1.0}), limit=7)
    assert (made.request.depth, made.request.with_items) == (7, True)
    assert not plan(SMALL, limit=7).request.with_items


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


def test_legs_of_what_the_question_is_about_are_left_out_where_it_says_nothing_of_it() -> None:
    """Nobody has to be told; with the leg alone, the error names what to give."""
    both = Profile(legs={"tagged": 1, "rated": 1})
    asked = checked_request(None, profile=both, needs_question=both.needs_question)
    assert (make_plan(SMALL, asked, None).request.legs, make_plan(SMALL, asked, None).notes) == ((LegName.RATED,), ())
    assert make_plan(SMALL, replace(asked, tags=frozenset("a")), None).request.legs == (LegName.TAGGED, LegName.RATED)
    with pytest.raises(InvalidRequestError, match=r"the tagged leg needs tags; give tags=\[...\]"):
        make_plan(SMALL, replace(asked, profile=both.only(["tagged"])), None)


def test_a_leg_with_weight_zero_does_not_run() -> None:
    """It could add nothing."""
    assert plan(SMALL, profile=Profile(legs={LegName.DENSE: 0.0, LegName.LEXICAL: 1.0})).request.legs == (
        LegName.LEXICAL,
    )


@pytest.mark.parametrize(("limit", "depth"), [(10, 50), (500, 500)])
def test_each_leg_brings_at_least_as_many_candidates_as_hits_are_wanted(limit: int, depth: int) -> None:
    """A page of 500 is not made of 50 candidates."""
    assert plan(SMALL, limit=limit).request.depth == depth


def test_memories_are_weighed_where_several_stored_signals_make_the_score() -> None:
    """Four times the depth a leg, of which the depth stays; not by one signal alone, nor by one that no row tells."""
    union = Fusion(kind=FusionKind.UNION)
    stored = (Recency(weight=0.4, decay_days=7), BaseRelevance(weight=0.6))
    legs = {"recent": 1.0, "relevant": 1.0}

    request = plan(SMALL, profile=Profile(legs=legs, fusion=union, signals=stored)).request
    assert request.standing == StandingWeights(relevance=0.6, recency=0.4, decay_days=7)
    assert (request.depth, request.enough) == (200, 50)
    for signals in (stored[:1], (*stored, Priority(weight=0.1))):
        request = plan(SMALL, profile=Profile(legs=legs, fusion=union, signals=signals)).request
        assert (request.standing, request.depth, request.enough) == (None, 50, None)


@pytest.mark.parametrize(
    ("legs", "message"),
    [
        ({"tagged": 1}, "^the tagged leg needs tags; give tags=.*, or words with other legs$"),
        ({"linked": 1, "dense": 0}, "^the linked leg needs entities; give entities=.*, or words with other legs$"),
        ({"linked": 1, "tagged": 1}, "^the linked leg needs entities and the tagged leg needs tags; give "),
    ],
)
def test_a_search_is_told_of_the_legs_that_its_profile_has(legs: dict[str, float], message: str) -> None:
    """What they wait for, and no other leg."""
    request = checked_request("words", profile=Profile(legs=legs))
    with pytest.raises(InvalidRequestError, match=message):
        make_plan(SMALL, request, "the dense leg is not part of this search")
