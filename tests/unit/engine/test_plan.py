"""The plan: legs, path, exact or approximate, and notes for the caller."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.composed import Share
from retrieval.adapters.store.search.candidate_request import SignalWeights
from retrieval.adapters.store.search.candidates import LegResults
from retrieval.adapters.store.search.dense_leg import MAX_EFFORT, SPARE
from retrieval.adapters.store.search.indexes import AnnIndex
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.embedding import EmbeddingSpace
from retrieval.domain.search.diversity import Diversity, Refining
from retrieval.domain.search.filters import Filter, parse_where
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import Fusion, FusionKind, LegName, Profile
from retrieval.domain.search.profile_parts import Combination
from retrieval.domain.search.signals import BaseRelevance, Priority, Recency, VectorSimilarity
from retrieval.engine.plan import (
    COMPARED_BY_FACETS,
    EFFORT_BY_FACETS,
    LEAST_PASSING,
    MOST_RANKED,
    STEP_TO_LOOK_UP,
    SearchPlan,
    Way,
    account,
    choose_way,
    default_profile,
    effort_for,
    few_by_facets,
    few_matches,
    few_to_look_up,
    make_plan,
    most_nearest,
    plan_preferred,
)
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
    """Without a dense leg too, the note says what is missing from the score."""
    profile = Profile(legs={"lexical": 1}, fusion=UNION, signals=(VectorSimilarity(weight=1),))
    request = checked_request("words", profile=profile)
    _, why_none = await query_vectors(SMALL, None, [request])
    assert why_none is not None
    assert why_none.startswith("vector_similarity is 0: no embedder for the space")
    assert make_plan(SMALL, request, why_none).notes == (why_none,)
    assert plan(SMALL, profile=Profile(legs={"lexical": 1}), vector_note=why_none).notes == ()


def test_preferred_items_are_searched_to_the_same_depth() -> None:
    """With a single leg too: the first of it alone would not do where both are merged."""
    profile = Profile(legs={"lexical": 1})
    request = checked_request("words", profile=profile, preferred=[parse_where({"n": {"lt": 5}})])
    (narrowed,) = request.narrowed
    first = make_plan(LARGE, request, "no")
    preferred = plan_preferred(LARGE, narrowed, "no", first)
    deep = plan(LARGE, profile=profile, vector_note="no", limit=profile.depth, condition=request.preferred[0]).request
    assert (preferred.depth, preferred.with_items) == (first.request.depth, False)
    assert (preferred.few, preferred.reach) == (deep.few, deep.reach)


def test_words_weigh_more_where_the_model_does_not_know_the_language() -> None:
    """A model that knows only English resembles chance in others, and refining would spread it."""
    local = EmbeddingSpace(provider="minilm", model="all-MiniLM-L6-v2", dimensions=384)
    assert default_profile(local, "simple") == default_profile(local)
    german = default_profile(local, "german")
    assert german.legs["lexical"] > german.legs["dense"] > 0
    assert german.refining.is_off
    other = replace(local, provider="own")
    assert default_profile(other, "german") == default_profile(other) == default_profile(None)


@pytest.mark.parametrize("language", ["english", "german"])
def test_new_collections_learn_by_the_combination_that_passes_its_trial(language: str) -> None:
    """The sum hardly ever does."""
    local = EmbeddingSpace(provider="minilm", model="all-MiniLM-L6-v2", dimensions=384)
    for space in (None, local):
        assert default_profile(space, language).learned.combination is Combination.LOGIT_STACK


def test_a_small_collection_is_searched_exactly() -> None:
    """Without an index every vector is compared, filtered or not."""
    assert plan(SMALL).request.path is Path.EXACT
    assert plan(SMALL, condition=parse_where({"kind": "x"})).request.path is Path.EXACT


def test_a_large_collection_walks_its_index() -> None:
    """It uses the effort measured for that many hits."""
    search_plan = plan(LARGE)
    assert (search_plan.request.path, search_plan.request.few) == (Path.APPROXIMATE, 0)
    assert search_plan.request.effort == AnnIndex().effort_10


def test_under_a_filter_the_statement_chooses_by_how_many_match() -> None:
    """The plan only says up to how many matches are compared, and how far a walk may go."""
    search_plan = plan(LARGE, condition=parse_where({"kind": "x"}))
    assert search_plan.request.path is Path.APPROXIMATE
    assert 0 < search_plan.request.few < LARGE.documents
    assert search_plan.request.reach > search_plan.request.depth


def test_a_search_of_one_leg_asks_for_its_hits_only() -> None:
    """There is nothing to fuse: its candidates are the hits, and come with their texts."""
    search_plan = plan(SMALL, profile=Profile(legs={LegName.LEXICAL: 1.0}), limit=7)
    assert (search_plan.request.depth, search_plan.request.with_items) == (7, True)
    assert not plan(SMALL, limit=7).request.with_items


def test_the_likely_hits_of_several_legs_come_with_their_texts() -> None:
    """Where the legs alone decide; what else decides can make any candidate a hit."""
    likely = plan(SMALL, limit=7).request.likely
    assert likely is not None
    assert likely.items == 7 + 1
    refined = Profile(fusion=Fusion(kind=FusionKind.WEIGHTED_SUM), refining=Refining(share=0.3))
    more = plan(SMALL, limit=7, profile=refined).request.likely
    assert more is not None
    assert more.items == 7 + 9
    assert dict(likely.weights) == {LegName.DENSE: 0.5, LegName.LEXICAL: 0.5}, "of 1"
    for profile in (
        Profile(legs={LegName.LEXICAL: 1.0}),
        Profile(diversity=Diversity(collapse_above=0.9)),
        Profile(fusion=UNION, signals=(VectorSimilarity(weight=1),)),
    ):
        assert plan(SMALL, profile=profile).request.likely is None


def test_a_leg_that_cannot_run_is_left_out_and_noted() -> None:
    """The other leg answers."""
    search_plan = plan(SMALL, vector_note="the embedder is down")
    assert search_plan.request.legs == (LegName.LEXICAL,)
    assert search_plan.notes == ("the embedder is down",)
    search_plan = plan(SMALL, has_words=False)
    assert search_plan.request.legs == (LegName.DENSE,)
    assert "no words" in search_plan.notes[0]


def test_when_no_leg_can_run_the_reason_is_the_error() -> None:
    """Rather than an empty page."""
    with pytest.raises(InvalidRequestError, match="the embedder is down"):
        plan(SMALL, profile=Profile(legs={LegName.DENSE: 1.0}), vector_note="the embedder is down")


def test_legs_of_what_the_question_is_about_are_left_out_where_it_says_nothing_of_it() -> None:
    """There is no note; if the leg is the only one, the error names the missing input."""
    both = Profile(legs={"tagged": 1, "rated": 1})
    request = checked_request(None, profile=both, needs_question=both.needs_question)
    assert (make_plan(SMALL, request, None).request.legs, make_plan(SMALL, request, None).notes) == (
        (LegName.RATED,),
        (),
    )
    assert make_plan(SMALL, replace(request, tags=frozenset("a")), None).request.legs == (LegName.TAGGED, LegName.RATED)
    with pytest.raises(InvalidRequestError, match=r"the tagged leg needs tags; give tags=\[...\]"):
        make_plan(SMALL, replace(request, profile=both.only(["tagged"])), None)


def test_a_leg_with_weight_zero_does_not_run() -> None:
    """It could add nothing."""
    assert plan(SMALL, profile=Profile(legs={LegName.DENSE: 0.0, LegName.LEXICAL: 1.0})).request.legs == (
        LegName.LEXICAL,
    )


@pytest.mark.parametrize(("limit", "depth"), [(10, 50), (500, 500)])
def test_each_leg_brings_at_least_as_many_candidates_as_hits_are_wanted(limit: int, depth: int) -> None:
    """A page of 500 needs more than 50 candidates a leg."""
    assert plan(SMALL, limit=limit).request.depth == depth


@pytest.mark.parametrize(("limit", "depth"), [(10, 50), (40, 160), (200, 300), (500, 500)])
def test_diverse_hits_are_chosen_from_four_times_the_limit(limit: int, depth: int) -> None:
    """At most 300, whatever the profile's depth is."""
    diverse = Profile(diversity=Diversity(relevance_share=0.5))
    assert plan(SMALL, profile=diverse, limit=limit).request.depth == depth


def test_memories_are_weighed_where_several_stored_signals_make_the_score() -> None:
    """The legs bring four times the depth, of which the depth stays; not for a single or a computed signal."""
    union = Fusion(kind=FusionKind.UNION)
    stored = (Recency(weight=0.4, decay_days=7), BaseRelevance(weight=0.6))
    legs = {"recent": 1.0, "relevant": 1.0}

    request = plan(SMALL, profile=Profile(legs=legs, fusion=union, signals=stored)).request
    assert request.signal_weights == SignalWeights(relevance=0.6, recency=0.4, decay_days=7)
    assert (request.depth, request.enough) == (200, 50)
    for signals in (stored[:1], (*stored, Priority(weight=0.1))):
        request = plan(SMALL, profile=Profile(legs=legs, fusion=union, signals=signals)).request
        assert (request.signal_weights, request.depth, request.enough) == (None, 50, None)


@pytest.mark.parametrize(
    ("legs", "message"),
    [
        ({"tagged": 1}, "^the tagged leg needs tags; give tags=.*, or words with other legs$"),
        ({"linked": 1, "dense": 0}, "^the linked leg needs entities; give entities=.*, or words with other legs$"),
        ({"linked": 1, "tagged": 1}, "^the linked leg needs entities and the tagged leg needs tags; give "),
    ],
)
def test_notes_name_only_legs_of_the_profile(legs: dict[str, float], message: str) -> None:
    """The search waits for these legs, and no others."""
    request = checked_request("words", profile=Profile(legs=legs))
    with pytest.raises(InvalidRequestError, match=message):
        make_plan(SMALL, request, "the dense leg is not part of this search")


INDEX = AnnIndex(rows=50_000, effort_10=60, effort_100=150, effort_200=350, exact_row_us=2.0, walk_row_us=8.0)
NONE_DOES = replace(INDEX, effort_10=1001, effort_100=1001, effort_200=1001)
LARGE_WAY = StoredCollection(
    collection_id=7,
    name="notes",
    text_search_config="english",
    profile=Profile(),
    profile_version=1,
    space=StoredSpace(3, EmbeddingSpace(provider="test", model="m", dimensions=8)),
    documents=50_000,
    ann_index=INDEX,
    attributes={},
)
SMALL_WAY = replace(LARGE_WAY, documents=100, ann_index=None)
DENSE = (LegName.DENSE,)


@pytest.mark.parametrize(
    ("nearest", "effort"), [(1, 60), (10, 60), (11, 61), (55, 105), (100, 150), (150, 250), (200, 350), (500, 950)]
)
def test_effort_is_as_measured_and_between_in_proportion(nearest: int, effort: int) -> None:
    """Flat to 10, then two straight lines, the second going on beyond 200."""
    assert effort_for(INDEX, nearest) == effort


def test_beyond_the_hundred_nearest_effort_grows_by_one_each_at_the_least() -> None:
    """An index that needed no more for 200 than for 100 was lucky, or was measured coarsely."""
    flat = replace(INDEX, effort_10=200, effort_100=200, effort_200=200)
    assert [effort_for(flat, nearest) for nearest in (100, 101, 400)] == [200, 201, 500]


def test_an_index_in_parts_is_walked_in_all_of_them_and_leaves_more_to_comparing() -> None:
    """Each part costs the effort once more."""
    divided = replace(LARGE_WAY, ann_index=replace(INDEX, parts=4))
    assert (plan(divided, has_words=False).request.parts, plan(LARGE_WAY, has_words=False).request.parts) == (4, 1)
    assert plan(SMALL_WAY, has_words=False).request.parts == 1
    each = [few_by_facets(replace(INDEX, parts=parts), limit=10, documents=50_000) for parts in (1, 2, 4)]
    assert each[0] < each[1] < each[2]


@pytest.mark.parametrize(
    "index", [INDEX, replace(INDEX, effort_200=1001), replace(INDEX, effort_100=1001, effort_200=1001), AnnIndex()]
)
def test_the_most_nearest_are_those_that_the_greatest_effort_ranks(index: AnnIndex) -> None:
    """One more would need more than there is."""
    most = most_nearest(index)
    assert effort_for(index, most) <= MAX_EFFORT < effort_for(index, most + 1)


def test_up_to_the_crossover_all_matches_are_compared() -> None:
    """m = sqrt(SPARE × d × N × w / r): there a walk of SPARE × d × N / m steps costs what comparing m vectors costs."""
    few = few_matches(INDEX, depth=10, limit=10, documents=50_000)
    assert few == math.ceil(math.sqrt(SPARE * 10 * 50_000 * 4))
    walk = SPARE * 10 * 50_000 / few * INDEX.walk_row_us
    assert few * INDEX.exact_row_us == pytest.approx(walk, rel=1e-3)


def test_more_are_compared_where_no_effort_would_rank_enough() -> None:
    """An index that is cheap to walk and hard to search: recall comes before speed."""
    hard = replace(INDEX, walk_row_us=0.1, effort_200=1001)
    few = few_matches(hard, depth=10, limit=10, documents=50_000)
    assert few > few_matches(replace(hard, effort_200=350), depth=10, limit=10, documents=50_000)
    assert (10 + 2 * math.sqrt(10) + 1) * 50_000 / few <= most_nearest(hard)


def test_never_more_matches_than_there_are_items() -> None:
    """An empty collection has room for one."""
    assert few_matches(INDEX, depth=1000, limit=1000, documents=200) == 200
    assert few_matches(INDEX, depth=10, limit=10, documents=0) == 1
    emptied = replace(LARGE_WAY, documents=0)
    assert choose_way(emptied, DENSE, depth=10, limit=10, is_filtered=True).few == 1


def test_a_filtered_walk_has_the_effort_for_all_that_it_must_rank() -> None:
    """If one in thirty-five items matches, the ten nearest are among some hundreds, not among ten."""
    unfiltered = choose_way(LARGE_WAY, DENSE, depth=10, limit=10, is_filtered=False)
    filtered = choose_way(LARGE_WAY, DENSE, depth=10, limit=10, is_filtered=True)
    assert unfiltered == Way(Path.APPROXIMATE, effort=60)
    assert filtered.path is Path.APPROXIMATE
    assert filtered.effort == effort_for(INDEX, math.ceil((10 + 2 * math.sqrt(10) + 1) * 50_000 / filtered.few))
    assert 60 < filtered.effort <= MAX_EFFORT
    assert filtered.reach >= SPARE * 10 * 50_000 / filtered.few


def test_matches_are_ranked_by_words_unless_enough_of_those_found_by_words_would_pass() -> None:
    """The leg finds twenty times the wanted items: a rarer match leaves too few. Common values are not counted."""

    def few(documents: int, least: float | None = None) -> int:
        collection, words = replace(LARGE_WAY, documents=documents), (LegName.LEXICAL,)
        share = None if least is None else Share(least, 1.0)
        return choose_way(collection, words, depth=10, limit=10, is_filtered=True, by_facets=share).few

    assert (few(20_000), few(40_000), few(1_000_000)) == (20_000 // LEAST_PASSING, 2_000, MOST_RANKED)
    assert few(100) == few_to_look_up(10, 100) > 100 // LEAST_PASSING
    assert (few(20_000, 0.0), few(20_000, 0.05), few(20_000, 0.5)) == (1_000, 1_000, -1)
    orders = choose_way(LARGE_WAY, (LegName.RECENT,), depth=10, limit=10, is_filtered=True)
    assert orders.few == few_to_look_up(10, 50_000)


def test_matches_by_facets_are_compared_up_to_the_crossover() -> None:
    """Comparing is cheaper there than by key, and a walk has no look-ups; one match less, and comparing wins."""
    few = few_by_facets(INDEX, limit=10, documents=50_000)
    ranked = [math.ceil((10 + 2 * math.sqrt(10) + 1) * 50_000 / matches) for matches in (few - 1, few)]
    compared = [matches * INDEX.exact_row_us * COMPARED_BY_FACETS for matches in (few - 1, few)]
    walked = [effort_for(INDEX, rows) * INDEX.walk_row_us * EFFORT_BY_FACETS for rows in ranked]
    assert compared[0] < walked[0]
    assert compared[1] >= walked[1]
    way = choose_way(LARGE_WAY, DENSE, depth=10, limit=10, is_filtered=True, by_facets=Share(0.0, 1.0))
    assert (way.path, way.few, way.effort) == (Path.APPROXIMATE, few, effort_for(INDEX, ranked[1]))


def test_more_are_compared_where_each_unit_of_effort_is_a_row() -> None:
    """A walk of bits pays for each row that it brings; and the plan says which kind of index is walked."""
    bits = replace(INDEX, is_quantised=True)
    assert few_by_facets(bits, limit=10, documents=50_000) > few_by_facets(INDEX, limit=10, documents=50_000)
    for index in (INDEX, bits):
        request = plan(replace(LARGE, ann_index=index), has_words=False).request
        assert request.is_quantised is index.is_quantised


def test_where_many_surely_match_nothing_is_counted_and_the_effort_is_theirs() -> None:
    """The plan counts on four fifths of the matches that the sample predicts."""
    way = choose_way(LARGE_WAY, DENSE, depth=50, limit=10, is_filtered=True, by_facets=Share(0.5, 0.5))
    assert way.few == -1
    assert way.effort == effort_for(INDEX, math.ceil((10 + 2 * math.sqrt(10) + 1) / 0.4))
    assert way.reach == math.ceil(SPARE * (50 + 2 * math.sqrt(50) + 1) / 0.4)
    perhaps = choose_way(LARGE_WAY, DENSE, depth=50, limit=10, is_filtered=True, by_facets=Share(0.0, 0.5))
    assert perhaps.few == few_by_facets(INDEX, limit=10, documents=50_000)


def test_where_few_surely_match_the_dense_leg_alone_needs_no_walk() -> None:
    """The plan counts on five fourths of the matches that the sample predicts. Words rank fewer matches one by one."""
    surely = 0.8 * few_by_facets(INDEX, limit=10, documents=50_000) / 50_000
    for legs, most, path in (
        (DENSE, 0.99 * surely, Path.EXACT),
        (DENSE, 1.01 * surely, Path.APPROXIMATE),
        ((LegName.DENSE, LegName.LEXICAL), 0.99 * surely, Path.APPROXIMATE),
    ):
        way = choose_way(LARGE_WAY, legs, depth=10, limit=10, is_filtered=True, by_facets=Share(0.0, most))
        assert way.path is path


def test_all_that_facets_find_is_compared_where_no_walk_is_good_enough() -> None:
    """An index that is cheap to walk and hard to search, and collections that hardly have items."""
    hard = replace(INDEX, walk_row_us=0.1, effort_100=1001, effort_200=1001)
    few = few_by_facets(hard, limit=100, documents=50_000)
    assert few == 50_000
    assert [few_by_facets(INDEX, limit=10, documents=number) for number in (0, 1)] == [1, 1]


def test_more_are_compared_where_that_saves_every_walk_half_its_effort() -> None:
    """An index that ranks 100 easily and 200 hardly: twice the matches are few, and walks stay within the 100."""
    steep = replace(INDEX, effort_200=1000)
    collection = replace(LARGE_WAY, ann_index=steep, documents=20_000)
    few = few_matches(steep, 10, 10, 20_000)
    way = choose_way(collection, DENSE, depth=10, limit=10, is_filtered=True)
    assert way.few == 2 * few
    assert way.effort <= effort_for(steep, 140)
    flat = replace(collection, ann_index=replace(INDEX, effort_10=900, effort_100=900, effort_200=900))
    way = choose_way(flat, DENSE, depth=10, limit=10, is_filtered=True)
    assert way.few == few_matches(replace(INDEX, effort_10=900, effort_100=900, effort_200=900), 10, 10, 20_000)


@pytest.mark.parametrize("is_filtered", [False, True])
def test_an_effort_above_the_most_means_exact(is_filtered: bool) -> None:  # noqa: FBT001 - a case of the test
    """This also applies if too many hits are requested for any effort."""
    useless = replace(LARGE_WAY, ann_index=NONE_DOES)
    assert choose_way(useless, DENSE, depth=10, limit=10, is_filtered=is_filtered) == Way(Path.EXACT)
    assert choose_way(LARGE_WAY, DENSE, depth=1000, limit=1000, is_filtered=is_filtered) == Way(Path.EXACT)


def test_without_an_index_or_anything_to_walk_for_it_is_exact() -> None:
    """A search in words or orders alone chooses only under a filter, whether or not there is an index of vectors."""
    assert choose_way(SMALL_WAY, DENSE, depth=10, limit=10, is_filtered=True) == Way(Path.EXACT)
    words = (LegName.LEXICAL,)
    assert choose_way(LARGE_WAY, words, depth=10, limit=10, is_filtered=False) == Way(Path.EXACT)
    ways = [choose_way(way, words, depth=10, limit=10, is_filtered=True) for way in (LARGE_WAY, SMALL_WAY)]
    assert [way.path for way in ways] == [Path.APPROXIMATE, Path.APPROXIMATE]
    assert all(way.few > 0 and way.reach > 10 for way in ways)


def test_orders_beside_exact_vectors_look_up_few_matches_and_walk_for_many() -> None:
    """All vectors of a small collection are compared, but its items are not all sorted."""
    legs = (LegName.DENSE, LegName.RECENT)
    way = choose_way(replace(SMALL_WAY, documents=10_000), legs, depth=10, limit=10, is_filtered=True)
    assert way.path is Path.EXACT
    assert 0 < way.few < 10_000
    assert choose_way(SMALL_WAY, legs, depth=10, limit=10, is_filtered=False) == Way(Path.EXACT)


@pytest.mark.parametrize(("depth", "documents"), [(10, 1_000), (100, 100_000), (1000, 50_000)])
def test_up_to_the_crossover_all_matches_are_looked_up(depth: int, documents: int) -> None:
    """There a walk of SPARE × d × N / m steps costs what m look-ups cost, a step being cheaper."""
    few = few_to_look_up(depth, documents)
    walk = SPARE * depth * documents / few
    assert few == pytest.approx(walk * STEP_TO_LOOK_UP, rel=3 / few)


@pytest.mark.parametrize(("documents", "few"), [(0, 1), (1, 1), (30, 30)])
def test_never_more_matches_are_looked_up_than_there_are_items(documents: int, few: int) -> None:
    """At least one."""
    assert few_to_look_up(1000, documents) == few


def _candidates(path: Path, weighed: int, *, fell_short: bool = False) -> LegResults:
    return LegResults({}, path, weighed, fell_short)


@pytest.mark.parametrize(
    ("collection", "leg_results", "is_filtered", "weighed", "why"),
    [
        (SMALL_WAY, _candidates(Path.NONE, 3), True, 0, "no dense leg"),
        (SMALL_WAY, _candidates(Path.EXACT, 10), False, 100, "no HNSW index: 100 items are few enough to compare all"),
        (SMALL_WAY, _candidates(Path.EXACT, 7), True, 7, "no HNSW index: the 7 matching vectors were compared"),
        (
            LARGE_WAY,
            _candidates(Path.APPROXIMATE, 10),
            False,
            10,
            "unfiltered among 50000 items: the HNSW index was walked",
        ),
        (
            LARGE_WAY,
            _candidates(Path.APPROXIMATE, 90),
            True,
            90,
            "many of 50000 items match: the HNSW index was walked",
        ),
        (
            LARGE_WAY,
            _candidates(Path.EXACT, 80),
            True,
            80,
            "80 of 50000 items match: comparing them all costs less than",
        ),
        (LARGE_WAY, _candidates(Path.EXACT, 999, fell_short=True), True, 999, "the index found too few matches"),
        (
            LARGE_WAY,
            _candidates(Path.EXACT, 1000),
            False,
            50_000,
            "the limit is so high that comparing all vectors is safer",
        ),
        (
            replace(LARGE_WAY, ann_index=AnnIndex(rows=50_000, effort_10=1001)),
            _candidates(Path.EXACT, 1000),
            False,
            50_000,
            "no cheaper walk of the HNSW index finds 99 % of the nearest: all vectors were compared",
        ),
    ],
)
def test_the_account_says_how_many_rows_were_weighed_and_why(
    collection: StoredCollection,
    leg_results: LegResults,
    is_filtered: bool,  # noqa: FBT001 - a case of the test
    weighed: int,
    why: str,
) -> None:
    """One sentence for each way that a search can go."""
    number, reason = account(collection, leg_results, is_filtered=is_filtered)
    assert number == weighed
    assert reason.startswith(why)
