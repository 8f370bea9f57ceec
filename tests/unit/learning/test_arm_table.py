"""One more event for an arm."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.arm import NO_ARM, Arm
from retrieval.learning.arm_table import updated

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_an_event_is_split_between_success_and_failure() -> None:
    """By its reward, times its weight; raw counts count it as one."""
    assert updated(NO_ARM, 0.25, weight=2, at=NOON) == Arm(0.5, 1.5, 1, 0, NOON)
    assert updated(NO_ARM, 0.5) == Arm(0.5, 0.5, 1, 1, None)


def test_events_decay_and_raw_counts_do_not() -> None:
    """After one half-life, half of the old event is left beside the new one."""
    assert updated(Arm(4.0, 2.0, 6, 4), 1.0, decay=0.5) == Arm(3.0, 1.0, 7, 5)


def test_weight_zero_counts_nothing() -> None:
    """The event leaves no trace, only the time that passed does."""
    assert updated(Arm(4.0, 2.0, 6, 4, NOON), 1.0, weight=0, decay=0.5, at=NOON + timedelta(1)) == Arm(
        2.0, 1.0, 6, 4, NOON
    )


def test_the_last_use_is_the_latest_whatever_comes_last() -> None:
    """A late event does not turn the clock back."""
    arm = updated(updated(NO_ARM, 1.0, at=NOON), 1.0, at=NOON - timedelta(days=3))

    assert arm.last_used_at == NOON
    assert updated(arm, 1.0).last_used_at == NOON


@given(events=st.lists(st.tuples(st.integers(0, 60), st.floats(0, 1)), min_size=1, max_size=8), seed=st.randoms())
def test_events_may_come_in_any_order(events: list[tuple[int, float]], seed: object) -> None:
    """Decayed in the weight, an event counts the same early and late; half-life 30 days, ages in days."""
    shuffled = sorted(events, key=lambda _: seed.random())  # type: ignore[attr-defined]
    arms = []
    for order in (events, shuffled):
        arm = NO_ARM
        for age, reward in order:
            arm = updated(arm, reward, weight=2 ** (-age / 30))
        arms.append(arm)

    assert arms[0][:2] == pytest.approx(arms[1][:2])
    assert arms[0].uses == arms[1].uses == len(events)


@pytest.mark.parametrize(
    ("numbers", "word"),
    [
        ({"reward": 1.1}, "reward"),
        ({"reward": float("nan")}, "reward"),
        ({"reward": 1.0, "weight": -1.0}, "weight"),
        ({"reward": 1.0, "weight": float("inf")}, "weight"),
        ({"reward": 1.0, "decay": 0.0}, "decay"),
        ({"reward": 1.0, "decay": 1.5}, "decay"),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(numbers: dict[str, float], word: str) -> None:
    """By its name."""
    with pytest.raises(InvalidRequestError, match=word):
        updated(NO_ARM, **numbers)  # type: ignore[arg-type]
