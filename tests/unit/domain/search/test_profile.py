"""Profiles refuse what cannot search, and survive being stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.search.diversity import Diversity
from retrieval.domain.search.profile import Fusion, FusionKind, LegName, Profile
from retrieval.domain.search.signals import Priority, Recency

UNION = Fusion(kind=FusionKind.UNION)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"legs": {}}, "at least one leg"),
        ({"legs": {"dense": 0.0}}, "weight above 0"),
        ({"legs": {"dense": -1.0}}, "from 0 to 1e\\+12"),
        ({"legs": {"dense": float("nan")}}, "from 0 to 1e\\+12"),
        ({"legs": {"dense": True}}, "must be a number"),
        ({"legs": {"densse": 1.0}}, "no leg 'densse'; did you mean 'dense'. There are: dense, lexical"),
        ({"depth": 0}, "1 to 1,000"),
        ({"depth": 1001}, "1 to 1,000"),
        ({"signals": (Recency(weight=1),)}, "need the fusion 'union'"),
        ({"fusion": UNION}, "a union needs signals"),
        ({"fusion": UNION, "signals": (Recency(weight=0),)}, "weight above 0"),
        ({"fusion": UNION, "signals": (Recency(weight=1), Recency(weight=2))}, "given twice"),
        ({"fusion": UNION, "signals": (Recency(weight=1),), "min_score": 2}, "min_score"),
        ({"min_score": 0.3}, "for profiles with signals"),
        ({"fusion": UNION, "signals": (1,)}, "give signals in a tuple"),
        ({"fusion": UNION, "signals": Recency(weight=1)}, "give signals in a tuple"),
    ],
)
def test_a_profile_that_cannot_search_is_refused(fields: dict[str, Any], message: str) -> None:
    """Each refusal says what to give instead."""
    with pytest.raises(InvalidProfileError, match=message):
        Profile(**fields)


def test_a_rank_constant_below_one_is_refused() -> None:
    """1 / (k + rank) must fall with the rank."""
    with pytest.raises(InvalidProfileError, match="from 1 to 1,000,000"):
        Fusion(k=0)


@given(
    st.dictionaries(st.sampled_from([leg.value for leg in LegName]), st.floats(0.01, 100), min_size=1),
    st.sampled_from([FusionKind.RRF, FusionKind.WEIGHTED_SUM]),
    st.integers(1, 1000),
    st.builds(Diversity, collapse_above=st.none() | st.floats(0.01, 1), relevance_share=st.none() | st.floats(0, 1)),
)
def test_a_stored_profile_comes_back_equal(
    legs: dict[str, float], kind: FusionKind, depth: int, diversity: Diversity
) -> None:
    """Through JSON and back nothing is lost."""
    profile = Profile(legs=legs, fusion=Fusion(kind=kind), depth=depth, diversity=diversity)
    assert Profile.from_dict(json.loads(json.dumps(profile.as_dict()))) == profile


def test_a_stored_union_comes_back_equal() -> None:
    """With the weights and numbers of its signals."""
    signals = (Recency(weight=0.25, decay_days=3), Priority(weight=0.75, values={"P1": 1.0}))
    profile = Profile(legs={"recent": 1.0}, fusion=UNION, signals=signals, min_score=0.3)
    assert Profile.from_dict(json.loads(json.dumps(profile.as_dict()))) == profile
    assert (profile.weights, profile.needs_question) == ({"recency": 0.25, "priority": 0.75}, False)
    assert profile.weights_of(["recent", "recency", "recency:1"]) == {"recent": 0, "recency": 0.25, "recency:1": 0.25}


@pytest.mark.parametrize(
    "stored", [{}, {"legs": 3}, {"legs": {}, "fusion": {"kind": "x", "k": 1}, "depth": 1}, {"legs": None}]
)
def test_an_invalid_stored_profile_is_refused(stored: dict[str, Any]) -> None:
    """A definition written by hand gets a readable error."""
    with pytest.raises(InvalidProfileError):
        Profile.from_dict(stored)


def test_only_keeps_weights_and_adds_missing_legs() -> None:
    """Naming legs for one search changes neither weights nor anything else of the profile."""
    profile = Profile(legs={LegName.DENSE: 0.7}, diversity=Diversity(collapse_above=0.9))
    both = profile.only((LegName.DENSE, LegName.LEXICAL))
    assert both == Profile(legs={"dense": 0.7, "lexical": 1.0}, diversity=profile.diversity)
    assert dict(profile.legs) == {"dense": 0.7}


@pytest.mark.parametrize(
    "diversity", [{"collapse_above": 2}, {"relevance_share": -1}, {"lambda": 0.5}, {"relevance_share": "much"}, 3]
)
def test_a_stored_diversity_that_cannot_be_is_refused(diversity: Any) -> None:
    """A number out of range, an unknown name, or a value that is not a mapping."""
    with pytest.raises(InvalidProfileError):
        Profile.from_dict({**Profile().as_dict(), "diversity": diversity})


def test_missing_fields_of_a_stored_profile_have_defaults() -> None:
    """A file need say only what differs."""
    assert Profile.from_dict({"legs": {"lexical": 1.0}}) == Profile(legs={"lexical": 1.0})


def test_a_part_that_no_profile_has_is_named() -> None:
    """The message lists the parts."""
    with pytest.raises(InvalidProfileError, match="Profile has no argument 'boost'; there are: legs, fusion"):
        Profile.from_dict({"legs": {"lexical": 1.0}, "boost": 2})


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("fusion", "rrf", "fusion is an object of kind, k, not 'rrf'"),
        ("fusion", {"kind": "zz"}, "there is no fusion 'zz'; there are: rrf, weighted_sum, union"),
        ("fusion", {"kind": "rrf", "kk": 3}, "Fusion has no argument 'kk'; did you mean 'k'. There are: kind, k"),
        ("diversity", 3, "diversity is an object of collapse_above, relevance_share, not 3"),
        ("legs", ["dense"], "a profile names its legs"),
    ],
)
def test_an_invalid_part_is_refused_in_the_terms_of_profiles(part: str, value: object, reason: str) -> None:
    """Not in those of Python."""
    with pytest.raises(InvalidProfileError, match=reason):
        Profile.from_dict({"legs": {"dense": 1.0}, part: value})
