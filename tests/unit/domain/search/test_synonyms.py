"""Synonyms: what a query gains by them, and which groups there can be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from retrieval import Profile
from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.search.query import MAX_ADDED, with_synonyms

GROUPS = (("car", "automobile", "motor car"), ("heart attack", "myocardial infarction"), ("car", "wagon"))


@pytest.mark.parametrize(
    ("query", "more"),
    [
        ("the Car", " automobile motor car wagon"),
        ("a motor  CAR", " automobile"),
        ("Heart-attack risk", " myocardial infarction"),
        ("heart of an attack", ""),
        ("cars", ""),
        ("car automobile", " motor car wagon"),
        ("", ""),
    ],
)
def test_a_query_gains_the_synonyms_of_its_words(query: str, more: str) -> None:
    """The longest phrase at each word counts, and nothing comes twice."""
    assert with_synonyms(query, GROUPS) == query + more


def test_without_groups_and_with_many_a_query_is_bounded() -> None:
    """So many texts come to it."""
    groups = tuple((f"w{number}", f"other{number}") for number in range(1000))
    assert with_synonyms("w1 w2", ()) == "w1 w2"
    assert with_synonyms(" ".join(f"w{number}" for number in range(1000)), groups).count("other") == MAX_ADDED


def test_a_profile_keeps_its_synonyms_through_json() -> None:
    """Lists become tuples."""
    profile = Profile(synonyms=[["db", "database"]])  # type: ignore[arg-type]
    assert Profile.from_dict(json.loads(json.dumps(profile.as_dict()))) == profile
    assert profile.synonyms == (("db", "database"),)
    assert Profile.from_dict({"legs": {"lexical": 1.0}}).synonyms == ()


@pytest.mark.parametrize(
    "groups", ["a b", [["one"]], ["ab"], [["a", 7]], [["a", " "]], [["a", "b\x00"]], 7, [["a"] * 21]]
)
def test_groups_that_are_none_are_refused(groups: Any) -> None:
    """With an example."""
    with pytest.raises(InvalidProfileError, match="synonym"):
        Profile.from_dict({"legs": {"lexical": 1.0}, "synonyms": groups})
