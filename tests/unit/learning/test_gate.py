"""The gate lets through what is better, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from retrieval.domain.errors import InvalidRequestError
from retrieval.learning.event import Event, arms_of
from retrieval.learning.gate import OffPolicy, held_out_split, is_better, predicted
from retrieval.learning.learned_reward import LearnedReward, learn
from retrieval.learning.shrinkage import Shrinkage

START = datetime(2026, 1, 1, tzinfo=UTC)


def made(count: int, rates: tuple[float, float] = (0.9, 0.1), seed: int = 4) -> list[Event]:
    """Two items with these rates."""
    rng = np.random.default_rng(seed)
    return [
        Event(
            item_id=str(item),
            buckets=("",),
            reward=float(rng.random() < rates[item]),
            signals={"dense": 0.5} if number % 2 else {},
            occurred_at=START + timedelta(minutes=number),
        )
        for number, item in enumerate(rng.integers(0, 2, count).tolist())
    ]


LEARNED, HELD_OUT = held_out_split(made(600))
ARMS = arms_of(LEARNED)
MODEL = learn(LEARNED, ARMS)
STUBBORN = LearnedReward(shrinkage=Shrinkage(concentration=10_000.0))
"""It hardly listens to an item's own events."""


def test_the_latest_events_are_held_out() -> None:
    """A fifth of them, whatever the order that they come in."""
    events = made(50)
    learned, held_out = held_out_split(events[::-1])

    assert learned == events[:40]
    assert held_out == events[40:]


def test_a_group_is_held_out_whole_and_always_the_same() -> None:
    """About the share that was asked for."""
    events = made(400)
    groups = [f"session-{number // 4}" for number in range(400)]
    learned, held_out = held_out_split(events, share=0.3, groups=groups)
    place = {id(event): group for event, group in zip(events, groups, strict=True)}

    assert not {place[id(event)] for event in learned} & {place[id(event)] for event in held_out}
    assert len(learned) + len(held_out) == 400
    assert 60 < len(held_out) < 180
    assert held_out_split(events, share=0.3, groups=groups) == (learned, held_out)


def test_what_predicts_better_is_published() -> None:
    """Against the best constant, and against a model that does not listen."""
    for incumbent in (None, STUBBORN):
        verdict = is_better(MODEL, incumbent, HELD_OUT, ARMS)
        assert verdict.published
        assert "does not support an off-policy estimate" in verdict.reason
        assert verdict.metrics["gain_lower"] > 0  # type: ignore[operator]


def test_what_predicts_worse_or_the_same_is_not_published() -> None:
    """One that does not listen against one that does, and a model against itself."""
    for candidate in (STUBBORN, MODEL):
        verdict = is_better(candidate, MODEL, HELD_OUT, ARMS)
        assert not verdict.published
        assert "not surely lower" in verdict.reason


def test_noise_beats_no_constant() -> None:
    """Where items do not differ, nothing is published."""
    learned, held_out = held_out_split(made(600, (0.5, 0.5)))
    arms = arms_of(learned)

    assert not is_better(learn(learned, arms), None, held_out, arms).published


@pytest.mark.parametrize(("lower", "value", "published"), [(0.4, 0.4, True), (0.5, 0.4, True), (0.39, 0.4, False)])
def test_the_off_policy_bound_must_not_be_worse(lower: float, value: float, published: bool) -> None:  # noqa: FBT001
    """However well the candidate predicts."""
    verdict = is_better(MODEL, None, HELD_OUT, ARMS, OffPolicy(lower, value))

    assert verdict.published is published
    assert f"{lower:.4f} against {value:.4f}" in verdict.reason
    assert verdict.as_dict()["metrics"]["candidate_value_lower"] == lower


def test_a_gain_below_the_margin_is_not_enough() -> None:
    """The margin is what a switch has to be worth."""
    assert not is_better(MODEL, None, HELD_OUT, ARMS, margin=1.0).published


def test_too_few_events_conclude_nothing() -> None:
    """The reason says how many are needed."""
    verdict = is_better(MODEL, None, HELD_OUT[:99], ARMS)

    assert not verdict.published
    assert "99 held-out events; at least 100" in verdict.reason


def test_what_is_predicted_for_an_event_is_what_the_model_says_in_its_context() -> None:
    """In the order of the events; an item without arms is new."""
    events = [*HELD_OUT[:3], Event(item_id="new", buckets=("domain=x",), reward=0.0)]
    by_id = {item.item_id: item for item in ARMS}
    expected = [MODEL.predict((), [by_id[event.item_id]])[0].mean for event in HELD_OUT[:3]]

    assert predicted(MODEL, events, ARMS)[:3] == pytest.approx(expected)
    assert 0 < predicted(MODEL, events, ARMS)[3] < 1


def test_what_cannot_be_split_or_judged_is_refused() -> None:
    """Shares, groups and weights that make no sense."""
    weightless = [Event(item_id="0", buckets=(), reward=0.0, weight=0.0)] * 100
    for call in (
        lambda: held_out_split([], share=1.0),
        lambda: held_out_split(made(3), groups=["a"]),
        lambda: is_better(MODEL, None, weightless, ARMS),
    ):
        with pytest.raises(InvalidRequestError):
            call()
