"""The weights of priorities, under any of their names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from retrieval.apps.tickets import ALIASES, PriorityWeights, tickets_profile
from retrieval.apps.tickets.models import ProcessingError, preset_named
from retrieval.domain.search.signals import Facts, Question

NOW = datetime(2024, 5, 1, tzinfo=UTC)


def worth(name: str | None, weights: PriorityWeights | None = None) -> float:
    """The value of the profile's priority signal for a ticket with that priority."""
    signal = next(signal for signal in tickets_profile(priority_weights=weights).signals if signal.name == "priority")
    facts = Facts(attributes={} if name is None else {"priority": name})
    return signal.value(facts, Question(now=NOW))


@pytest.mark.parametrize(
    ("name", "value"),
    [("Critical", 1.0), ("high", 0.8), (" MEDIUM ", 0.5), ("Low", 0.3), ("unheard of", 0.5), ("", 0.5), (None, 0.5)],
)
def test_a_name_is_worth_its_weight(name: str | None, value: float) -> None:
    """The case does not matter; an unknown or missing name has the middle weight."""
    assert worth(name) == value


def test_jiras_names_are_worth_what_they_stand_for() -> None:
    """By their own weights where these are changed."""
    assert [worth(name) for name in ("Blocker", "major", "Minor", "Trivial")] == [1.0, 0.5, 0.3, 0.3]
    for name in ("Critical", "critical"):
        assert worth("Blocker", PriorityWeights.model_validate({name: 0.9})) == 0.9
    assert set(ALIASES.values()) <= set(PriorityWeights.model_fields)


def test_any_name_may_be_given_a_weight() -> None:
    """It counts more than an alias, and is checked as the four are."""
    weights = PriorityWeights.model_validate({"blocker": 0.7, "P1": 0.95})
    assert (worth("Blocker", weights), worth("p1", weights), worth("Critical", weights)) == (0.7, 0.95, 1.0)
    for wrong in (1.1, -0.1, float("nan"), "much"):
        with pytest.raises(ValidationError):
            PriorityWeights.model_validate({"P1": wrong})
        with pytest.raises(ValidationError):
            PriorityWeights.model_validate({"High": wrong})


@pytest.mark.parametrize("name", ["Priority-Focused", "priority focused", " PRIORITY_FOCUSED"])
def test_a_presets_name_is_read_generously(name: str) -> None:
    """Case, spaces and hyphens."""
    assert preset_named(name) == "priority_focused"


def test_an_unknown_preset_is_refused_with_the_existing_ones() -> None:
    """In one line."""
    with pytest.raises(ProcessingError, match="semantic_match, balanced, priority_focused, fast_resolution"):
        preset_named("fastest")
