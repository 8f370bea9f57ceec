"""What follows from a metaphor that failed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.apps.metaphors import Metaphor
from retrieval.apps.metaphors.ranking import DirectionPreference, away_from, context_after, preference_after
from retrieval.domain.items.embedding import Vector


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("it was too abstract to act on", DirectionPreference(concrete=True)),
        ("Too Abstract", DirectionPreference(concrete=True)),
        ("missing concept: time", DirectionPreference(rich=True)),
        ("too abstract, and a missing concept", DirectionPreference(concrete=True)),
        ("it contradicts itself", DirectionPreference()),
        ("", DirectionPreference()),
    ],
)
def test_the_reason_says_what_to_prefer(reason: str, expected: DirectionPreference) -> None:
    """Concrete ones, rich ones, or nothing in particular."""
    assert preference_after(reason) == expected


def test_the_failure_is_told_with_name_and_reason() -> None:
    """In one context."""
    told = context_after(Metaphor(id="plumbing", name="Plumbing"), "no good candidates for pressure")
    assert "Plumbing" in told
    assert "no good candidates for pressure" in told


def vector(seed: int) -> Vector:
    """A direction."""
    numbers = np.random.default_rng(seed).normal(size=16)
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


@given(st.integers(0, 1000), st.integers(0, 1000), st.floats(0.05, 0.9))
def test_the_question_moves_away_from_what_failed(first: int, second: int, strength: float) -> None:
    """It is less like it than before, of length 1, and the more so the stronger."""
    question, failed = vector(first), vector(second + 2000)
    moved = away_from(question, failed, strength)
    assert np.linalg.norm(moved) == pytest.approx(1, abs=1e-5)
    assert moved @ failed < question @ failed + 1e-6
    assert away_from(question, failed, strength + 0.1) @ failed < moved @ failed + 1e-6


def test_a_question_that_is_the_failed_metaphor_stays() -> None:
    """Nothing of it would be left."""
    same = vector(1)
    assert away_from(same, same, 1.0) is same
