"""The record of a search, and reading it back."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from retrieval.adapters.store.records.recording_statement import COLUMNS, encoded
from retrieval.adapters.store.tables import retrievals
from retrieval.domain.learning.context import Context
from retrieval.domain.records.recorded import RecordedSearch, recorded_search
from retrieval.domain.records.search_record import SearchRecord
from retrieval.domain.records.slate import Placed, Slot
from retrieval.domain.search.filters import And, Contains, Filter, Not, OneOf, Or, parse_field, parse_where
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.profile_parts import Recording
from retrieval.engine.ranking import signals_of
from retrieval.engine.record import AnsweredSearch, DecisionRecord, recorded_request, request_of
from retrieval.engine.request import SearchRequest, checked_request
from tests.support.recording import MOMENT, SCORES, answered_search
from tests.support.rows import value_of


def told_of(search: AnsweredSearch) -> RecordedSearch:
    """The record as it is read."""
    return recorded_search(search.record(), search.plan.profile)


def test_a_record_has_a_value_for_every_column() -> None:
    """Columns and fields are the same, so that no column stays empty by mistake."""
    names = {field.name for field in fields(SearchRecord)}
    assert names | {"pool_scores_exact"} == {column.name for column in retrievals.columns} == set(COLUMNS)


def test_its_time_is_that_of_its_identifier() -> None:
    """The month of a record follows from its identifier."""
    stored_record = answered_search().record()
    assert stored_record.retrieved_at == MOMENT
    assert stored_record.statistics_at == MOMENT


def test_the_pool_keeps_every_signal_in_the_order_of_relevance() -> None:
    """Raw scores, ranks and the best score by leg, the relevance and the score."""
    search = told_of(answered_search())
    assert search.pool_items == ["c", "a", "b", "d"]
    signals = search.pool_signals
    assert signals["legs"] == {"dense": [0.5, 0.9, 0.8, None], "lexical": [7.0, None, None, 3.0]}
    assert signals["ranks"] == {"dense": [3, 1, 2, None], "lexical": [1, None, None, 2]}
    assert signals["bests"] == {"dense": 0.9, "lexical": 7.0}
    assert signals["relevance"] == signals["score"] == sorted(signals["relevance"], reverse=True)
    assert signals["scaled"][0] == pytest.approx(signals["relevance"][0] * 61 / 2)
    assert set(signals) == {"legs", "ranks", "bests", "relevance", "scaled", "score"}


@pytest.mark.parametrize(("size", "expected"), [(0, []), (2, ["c", "a"])])
def test_the_pool_is_as_large_as_the_profile_says(size: int, expected: list[str]) -> None:
    """At 0 it is empty; otherwise it has the best candidates."""
    search = told_of(answered_search(profile=Profile(recording=Recording(pool=size))))
    assert search.pool_items == expected
    assert len(search.pool_signals["relevance"]) == size


def test_learned_and_explored_signals_are_recorded_with_the_relevance() -> None:
    """The stages after fusion add their values for each item."""
    decision = DecisionRecord(
        model_version=3,
        statistics_at=MOMENT - timedelta(minutes=1),
        cluster=4,
        eligible=2,
        pulls={"a": 1.5},
        scores={"a": 0.7},
        signals={"learned": {"a": 0.8, "b": 0.2}},
    ).explored("thompson_slots/1", {"a": 0.25})
    slate = [Placed("c"), Placed("a", Slot.EXPLORE, 0.25, 0.125)]
    search = told_of(answered_search(decision=decision, slate=slate))
    assert (search.model_version, search.policy, search.cluster, search.eligible) == (3, "thompson_slots/1", 4, 2)
    assert search.statistics_at == MOMENT - timedelta(minutes=1)
    assert search.pool_signals["score"][1] == 0.7
    assert search.pool_signals["learned"] == [None, 0.8, 0.2, None]
    assert search.pool_signals["propensity"] == [None, 0.25, None, None]
    impression = search.impressions[1]
    assert (impression.item_id, impression.slot, impression.pulls) == ("a", Slot.EXPLORE, 1.5)
    assert (impression.propensity, impression.rank_propensity) == (0.25, 0.125)
    assert search.impressions[0].slot is Slot.EXPLOIT


def test_the_impressions_explain_their_scores() -> None:
    """The contributions by name add up to the score."""
    for hit in told_of(answered_search()).impressions:
        assert sum(part["value"] for part in hit.signals.values()) == pytest.approx(hit.score)
    first = told_of(answered_search()).impressions[0]
    assert first.signals["lexical"] == {"rank": 1, "raw": 7.0, "weight": 1.0, "value": pytest.approx(1 / 61)}


def stacked(pool: int) -> AnsweredSearch:
    """A search with four candidates, which a stack scored by relevance and length; the pool has that many."""
    lengths = {"a": 0.5, "b": 0.0, "c": -1.0, "d": 0.0}
    decision = DecisionRecord(
        model_version=3,
        scores=dict.fromkeys(lengths, 1.0),
        weights={"relevance": 10.0, "length": 2.0},
        signals={"affinity": dict.fromkeys(lengths, 0.0), "length": lengths},
    )
    return answered_search(decision=decision, profile=Profile(recording=Recording(pool=pool)))


def test_the_parts_that_a_stack_made_of_scores_follow_from_its_weights() -> None:
    """Rank and signal are the candidates', and ties have the order of relevance."""
    assert stacked(pool=4).record().shown_signals == {"relevance": 10.0, "length": 2.0}
    first, second, third = told_of(stacked(pool=4)).impressions
    assert first.signals["length"] == {"rank": 4, "raw": -1.0, "weight": 2.0, "value": -2.0}
    assert (second.signals["length"]["rank"], third.signals["length"]["rank"]) == (1, 2)
    relevance = first.signals["relevance"]
    assert (relevance["rank"], relevance["value"]) == (1, pytest.approx(10 * relevance["raw"]))
    assert set(first.signals) == {"relevance", "length"}


def test_the_parts_of_scores_are_kept_where_not_all_candidates_are() -> None:
    """Ranks among all of them would not follow."""
    shown_signals = stacked(pool=3).record().shown_signals
    assert isinstance(shown_signals, list)
    assert len(shown_signals) == 3


def test_a_stacks_part_of_relevance_is_gone_with_the_profile() -> None:
    """Relevance followed from it."""
    search_read = recorded_search(stacked(pool=4).record(), None)
    assert set(search_read.impressions[0].signals) == {"length"}


def test_the_spread_is_that_of_the_first_five_scores() -> None:
    """First minus fifth; minus the last where there are fewer; none without hits."""
    six = {"dense": {name: 1.0 - place / 10 for place, name in enumerate("abcdef")}}
    request = SearchRequest(query="x", vector=None, limit=6, condition=None, profile=None)
    stored_record = answered_search(scores=six, request=request).record()
    assert (stored_record.hits, stored_record.top_score) == (6, 1.0)
    assert stored_record.score_spread == pytest.approx(0.4)
    assert answered_search(scores={"dense": {"a": 0.5}}).record().score_spread == 0.0
    none = answered_search(scores={"dense": {}}).record()
    assert (none.hits, none.top_score, none.score_spread) == (0, None, None)


def test_the_context_is_kept_as_given() -> None:
    """The actor, the situation, and the number of backtracks."""
    context = Context(domain="d", complexity=0.5, actor="ann", session="s", backtracks=2, generated=True)
    stored_record = answered_search(context=context).record()
    assert (stored_record.domain, stored_record.complexity, stored_record.actor, stored_record.session) == (
        "d",
        0.5,
        "ann",
        "s",
    )
    assert (stored_record.backtrack_count, stored_record.generation_triggered) == (2, True)


def test_a_vector_is_kept_only_where_the_caller_gave_it() -> None:
    """An embedded query can be embedded again."""
    assert answered_search().record().vector is None
    by_vector = SearchRequest(query="", vector=np.ones(3, np.float32), limit=3, condition=None, profile=None)
    stored_record = answered_search(request=by_vector).record()
    assert list(stored_record.vector or ()) == value_of(encoded(stored_record), "vector") == [1.0, 1.0, 1.0]
    by_vector = replace(by_vector, vector=np.array([1, np.nan, 1], np.float32))
    with pytest.raises(ValueError, match="not finite"):
        encoded(answered_search(request=by_vector).record())


def test_a_profile_of_the_calls_own_is_kept_with_the_request() -> None:
    """The version is 0, and the request has the profile."""
    own = Profile(legs={"dense": 2.0}, fusion=Fusion(kind=FusionKind.WEIGHTED_SUM))
    request = SearchRequest(query="x", vector=None, limit=3, condition=None, profile=own)
    stored_record = answered_search(profile=own, request=request, profile_version=None).record()
    assert stored_record.profile_version == 0
    assert Profile.from_dict(stored_record.request["profile"]) == own


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_value_that_is_not_a_number_is_refused(number: float) -> None:
    """This applies to every field."""
    scored = answered_search(scores={**SCORES, "dense": {"a": number}}).record()
    for stored_record in (scored, replace(answered_search().record(), retrieval_time_ms=number, timings_ms={})):
        with pytest.raises(ValueError, match="not a finite number"):
            encoded(stored_record)
    with pytest.raises(ValueError, match="not JSON compliant"):
        encoded(replace(answered_search().record(), timings_ms={"total": number}))


def test_scores_take_half_the_room_where_they_lose_nothing() -> None:
    """Scores that ``real`` represents exactly are sent as such; a single other score makes all ``double``."""
    halves = answered_search(scores={"dense": {"a": 0.5, "b": 0.25}}).record()
    assert (value_of(encoded(halves), "pool_scores"), value_of(encoded(halves), "pool_scores_exact")) == (
        [[0.5, 0.25]],
        None,
    )
    tenths = answered_search(scores={"dense": {"a": 0.5, "b": 0.1}, "lexical": {"a": 2.0}}).record()
    assert value_of(encoded(tenths), "pool_scores") is None
    assert value_of(encoded(tenths), "pool_scores_exact") == [[0.5, 0.1], [2.0, None]]


def test_a_row_says_what_the_record_says() -> None:
    """Each column has PostgreSQL's form; usual values are left out."""
    stored_record = answered_search().record()
    row = {name: value_of(encoded(stored_record), name) for name in COLUMNS}
    same = (
        "retrieval_id",
        "retrieved_at",
        "query",
        "seed",
        "hits",
        "policy",
        "pool_items",
        "shown_items",
        "timings_ms",
    )
    assert [row[name] for name in same] == [getattr(stored_record, name) for name in same]
    assert row["pool_ranks"] == [[3, 1, 2, 0], [1, 0, 0, 2]]
    assert row["request"] == {"limit": 3}
    usual = ("shown_slots", "propensities", "rank_propensities", "pulls", "shown_signals", "vector", "complexity")
    assert {row[name] for name in usual} == {None}


def test_a_candidate_may_have_any_rank() -> None:
    """If two legs order a large collection in opposite ways, the first candidate of one is the last of the other."""
    forwards = {f"item {number:05}": 1 - number / 40_000 for number in range(40_000)}
    backwards = dict(zip(reversed(forwards), forwards.values(), strict=True))
    row = encoded(answered_search(scores={"dense": forwards, "lexical": backwards}).record())
    assert max(map(max, value_of(row, "pool_ranks"))) == 40_000


@pytest.mark.parametrize(
    "profile",
    [
        Profile(),
        Profile(legs={"dense": 0.3, "lexical": 0.9}, fusion=Fusion(kind=FusionKind.WEIGHTED_SUM)),
        Profile(legs={"lexical": 1.0}),
        Profile(recording=Recording(pool=2)),
    ],
)
def test_omitted_parts_follow_from_the_recorded_ones(profile: Profile) -> None:
    """The parts of each score, to the last digit; without the profile, at least the legs' own scores and ranks."""
    scores = {leg: SCORES[leg] for leg in profile.legs}
    search = answered_search(profile=profile, scores=scores)
    search_read = recorded_search(search.record(), profile)
    assert [impression.signals for impression in search_read.impressions] == [
        signals_of(hit.contributions) for hit in search.shown
    ]
    assert sorted(search_read.pool_signals["relevance"], reverse=True) == search_read.pool_signals["relevance"]
    without_profile = recorded_search(search.record(), None)
    assert "relevance" not in without_profile.pool_signals
    for bare_impression, whole in zip(without_profile.impressions, search_read.impressions, strict=True):
        bare = {leg: {key: part[key] for key in ("rank", "raw")} for leg, part in whole.signals.items()}
        assert bare_impression.signals in (bare, whole.signals), "a hit outside the pool has its own"


WHERE = {"and": [{"priority": ["High", 1]}, {"occurred_at": {"gte": datetime(2026, 1, 1, tzinfo=UTC)}}]}


@pytest.mark.parametrize(
    "search_request",
    [
        checked_request("some words"),
        checked_request('"a phrase" -without begin*', condition=parse_where(WHERE), limit=7, group_by="project"),
        checked_request("-without word", condition=parse_where({"tags": "x"})),
        checked_request('"one" "two"', group_by="attributes.kind"),
        checked_request("tagged", tags=["b", "a"], entities={"questions": ["q1"]}),
        checked_request("plain", condition=parse_where({"not": {"hours": {"exists": True}}})),
    ],
)
def test_a_request_comes_back(search_request: SearchRequest) -> None:
    """Words, limit, grouping, prefixes, phrases and filter, in a form that means the same."""
    back = request_of(recorded_search(answered_search(request=search_request).record(), None))
    assert back is not None
    assert replace(back, condition=None) == replace(search_request, condition=None)
    assert _flat(back.condition) == _flat(search_request.condition)


def _flat(condition: Filter | None) -> list[Filter]:
    """The parts that all have to hold."""
    if isinstance(condition, And):
        return [part for inner in condition.filters for part in _flat(inner)]
    return [] if condition is None else [condition]


@pytest.mark.parametrize(
    "condition", [Or((Contains("x"), OneOf(parse_field("kind"), ("note",)))), Not(Not(Contains("x")))]
)
def test_a_filter_without_a_mapping_is_distinguished_from_no_filter(condition: Filter) -> None:
    """It cannot be repeated, and the record says so."""
    unsayable = checked_request("words", condition=condition)
    mapping, recorded = recorded_request(unsayable)
    assert mapping == {}
    assert recorded["is_whole"] is False
    assert request_of(recorded_search(answered_search(request=unsayable).record(), None)) is None
