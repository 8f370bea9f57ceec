"""Events: refusals, decay, and the sums in arms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from retrieval.domain.learning.arm import Arm
from retrieval.learning.examples import Event, arms_of, faded

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def test_an_event_loses_half_its_weight_in_each_half_life() -> None:
    """One without a time keeps its weight, and one from the future has its full weight."""
    times = [NOW - timedelta(days=20), None, NOW + timedelta(days=3)]
    events = [Event(item_id="a", buckets=(), reward=1.0, weight=0.8, occurred_at=time) for time in times]

    assert [event.weight for event in faded(events, NOW, timedelta(days=10))] == pytest.approx([0.2, 0.8, 0.8])


def test_arms_are_the_sums_of_their_events_in_each_bucket() -> None:
    """Weighted."""
    first = Event(item_id="a", buckets=("", "domain=x"), reward=0.75, weight=2.0, occurred_at=NOW)
    second = Event(item_id="a", buckets=("domain=y",), reward=0.0, occurred_at=NOW - timedelta(days=1))
    (item,) = arms_of([first, second], {"a": 3})

    assert item.cluster == 3
    assert item.arms == {
        "": Arm(1.5, 1.5),
        "domain=x": Arm(1.5, 0.5),
        "domain=y": Arm(0.0, 1.0),
    }
