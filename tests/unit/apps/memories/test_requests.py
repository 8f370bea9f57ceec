"""Requests for memories, and refused ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from retrieval.apps.memories.requests import (
    RELATED_TYPES,
    SEMANTIC_PROFILE,
    STRATEGIES,
    checked_match,
    checked_types,
    chosen_profile,
    conditions,
    entity_set,
    related_types,
    start_of,
)
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.profile import Profile

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def test_a_strategy_asks_for_three_tenths_and_all_but_the_last_are_one_signal() -> None:
    """The hybrid has five; meaning counts only in the profile that says so, whose weights sum to one too."""
    *single, hybrid = STRATEGIES.values()
    assert [dict(profile.weights) for profile in single] == [
        {"keyword": 1.0}, {"entity": 1.0}, {"recency": 1.0}, {"popularity": 1.0},
    ]  # fmt: skip
    assert len(hybrid.weights) == 5
    assert {profile.min_score for profile in STRATEGIES.values()} == {0.3}
    assert sum(SEMANTIC_PROFILE.weights.values()) == pytest.approx(1)
    assert SEMANTIC_PROFILE.weights["vector_similarity"] > 0


def test_the_filter_names_the_project_and_other_requested_fields() -> None:
    """Types, links and the moment, each only where there is something in it."""
    assert conditions("p", ["insights"], {"questions": ["q1"], "papers": []}, NOW) == {
        "project_id": "p", "kind": ["insights"], "links": ["questions:q1"], "occurred_at": {"lte": NOW},
    }  # fmt: skip
    assert conditions("p", [], {"questions": []}, None) == {"project_id": "p"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: conditions("", [], None, None), "project_id is"),
        (lambda: conditions(None, [], None, None), "project_id is"),  # type: ignore[arg-type]
        (lambda: checked_types("insights"), r"come in a list such as \['insights'\]"),
        (lambda: checked_types([1]), "an interaction type is 1; it must be a text"),
        (lambda: entity_set(["q1"]), "links are a mapping"),  # type: ignore[arg-type]
        (lambda: entity_set({"questions": "q1"}), "ids come in a list"),
        (lambda: entity_set({"questions": [1]}), "links of type 'questions': 1 must be a text"),  # type: ignore[list-item]
        (lambda: entity_set({"a:b": ["x"]}), "an entity type has no colon"),
        (lambda: start_of(0, NOW), "hours is 0"),
        (lambda: start_of(float("nan"), NOW), "hours is nan"),
        (lambda: checked_match("only"), "it must be 'filter' or 'prefer'"),
        (lambda: chosen_profile("magic", None), "there is no strategy 'magic'; .* There are: keyword, entity, recency"),
        (lambda: chosen_profile("hybrid", Profile()), "ranked by signals"),
        (lambda: related_types(" "), "name a kind of task"),
    ],
)
def test_invalid_requests_are_refused_with_advice(call: Any, message: str) -> None:
    """One line that says what to write instead."""
    with pytest.raises(InvalidRequestError, match=message):
        call()


def test_hours_without_end_reach_back_to_the_beginning() -> None:
    """It is the earliest representable time."""
    assert start_of(float("inf"), NOW) == datetime.min.replace(tzinfo=UTC)
    assert start_of(1e12, NOW) == datetime.min.replace(tzinfo=UTC)
    assert start_of(24, NOW) == datetime(2026, 4, 30, tzinfo=UTC)


def test_a_repeated_entity_counts_once() -> None:
    """Repetitions do not matter; types without ids are left out."""
    assert entity_set({"questions": ["q2", "q1", "q2"], "papers": ()}) == {("questions", "q1"), ("questions", "q2")}
    assert entity_set({"papers": []}) == entity_set(None) == frozenset()


def test_a_profile_takes_the_strategys_place() -> None:
    """``semantic`` is one of the names."""
    assert chosen_profile("semantic", None) is SEMANTIC_PROFILE
    assert chosen_profile("hybrid", SEMANTIC_PROFILE) is SEMANTIC_PROFILE


def test_each_service_has_related_types_with_its_own_first() -> None:
    """In the singular and the plural, and as it is given; an unknown task has its own type alone."""
    assert set(RELATED_TYPES) == {"insights", "summary", "triage", "protocols", "plans", "experiments"}
    assert all(types[0] == task and len(types) > 1 for task, types in RELATED_TYPES.items())
    assert related_types("Protocol") == (*related_types("protocols"), "Protocol")
    assert related_types("protocol") == related_types("protocols")
    assert {"protocol", "protocols"} <= set(related_types("plan"))
    assert related_types(" Experiment ") == (*related_types("experiments"), "Experiment")
    assert {"experiment", "experiments", "plan", "plans", "protocol", "insights"} <= set(related_types("experiment"))
    assert {"experiment", "experiments"} <= set(related_types("plan"))
    assert related_types(" chat ") == ("chat",)
