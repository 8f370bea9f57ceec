"""The stack: weights found in feedback, of signals that are never counted against an item."""

from __future__ import annotations

import json

import numpy as np
import pytest

from retrieval.learning.arm_table import Floats
from retrieval.learning.logistic import RELEVANCE
from retrieval.learning.stack import (
    AFFINITY,
    LEARNED,
    LENGTH,
    LogitStack,
    affinity_signal,
    fit_stack,
    length_signal,
)

EVENTS = 4000


def _world(
    seed: int, *, intercept: float = -1.0, spread: float = 1.0, **weights: float
) -> tuple[dict[str, Floats], Floats, Floats]:
    """Signals from 0 to ``spread``, rewards and ranks of events whose rewards follow these weights."""
    rng = np.random.default_rng(seed)
    signals = {name: spread * rng.random(EVENTS) for name in weights}
    ranks = rng.integers(1, 11, EVENTS).astype(np.float64)
    logits = intercept - 0.6 * np.log(ranks) + np.sum([weights[name] * signals[name] for name in weights], axis=0)
    return signals, (rng.random(EVENTS) < 1 / (1 + np.exp(-logits))).astype(np.float64), ranks


def test_the_fit_finds_the_weights_behind_the_rewards() -> None:
    """After thousands of events the priors do not matter, and the effect of the place is separated."""
    signals, rewards, ranks = _world(1, intercept=-6.0, **{RELEVANCE: 9.0, LEARNED: 1.0, "dense": -0.5})
    stack = fit_stack(signals, rewards, np.ones(EVENTS), ranks)
    assert stack.weights == pytest.approx({RELEVANCE: 9.0, LEARNED: 1.0, "dense": -0.5}, abs=0.6)
    assert stack.position == pytest.approx(-0.6, abs=0.2)
    expected = stack.probability(signals, ranks)
    assert float(np.mean(expected)) == pytest.approx(float(np.mean(rewards)), abs=0.01)


def test_wrong_verdicts_do_not_flatten_the_weights() -> None:
    """If three of ten are wrong, the fit finds the share, and the weights of the others; with none wrong, none."""
    for wrong in (0.0, 0.3):
        signals, rewards, ranks = _world(5, intercept=-9.0, spread=2.0, **{RELEVANCE: 8.0, LENGTH: 1.0})
        flipped = np.random.default_rng(6).random(EVENTS) < wrong
        stack = fit_stack(signals, np.where(flipped, 1 - rewards, rewards), np.ones(EVENTS), ranks)
        assert stack.wrong == pytest.approx(wrong, abs=0.05)
        assert stack.weights[RELEVANCE] == pytest.approx(8.0, abs=1.0)
        says = float(np.mean(np.where(flipped, 1 - rewards, rewards)))
        assert float(np.mean(stack.verdict(signals, ranks))) == pytest.approx(says, abs=0.02)
        assert float(np.mean(stack.probability(signals, ranks))) == pytest.approx(float(np.mean(rewards)), abs=0.04)


def test_without_events_the_order_is_that_of_relevance() -> None:
    """Unknown rewards weigh little against it."""
    none = np.zeros(0)
    stack = fit_stack({RELEVANCE: none, LEARNED: none, AFFINITY: none, LENGTH: none}, none, none, none)
    assert stack.weights == pytest.approx({RELEVANCE: 10.0, LEARNED: 0.2, AFFINITY: 3.0, LENGTH: 0.0})


def test_better_by_a_measure_is_never_worse_by_the_blend() -> None:
    """This holds even if feedback contradicts it: that would be noise, or an effect of the place."""
    signals, rewards, ranks = _world(2, **{RELEVANCE: -2.0, LEARNED: -1.0, AFFINITY: -1.0})
    stack = fit_stack(signals, rewards, np.ones(EVENTS), ranks)
    assert min(stack.weights.values()) >= 0


def test_length_may_count_for_an_item_or_against_it() -> None:
    """In collections where longer items help, and where shorter ones do."""
    for weight in (1.5, -1.5):
        signals, rewards, ranks = _world(4, **{RELEVANCE: 8.0, LENGTH: weight})
        assert fit_stack(signals, rewards, np.ones(EVENTS), ranks).weights[LENGTH] == pytest.approx(weight, abs=0.4)


def test_a_length_is_a_logarithm() -> None:
    """It is the logarithm of the length in thousand octets; an unknown length counts 0."""
    assert length_signal([1000, 2718, 0]) == pytest.approx([0.0, 1.0, 0.0], abs=1e-3)


def test_an_event_without_weight_changes_nothing() -> None:
    """The fit is the same as without it."""
    signals, rewards, ranks = _world(3, **{RELEVANCE: 2.0})
    half = np.arange(EVENTS) % 2 == 0
    some = fit_stack({RELEVANCE: signals[RELEVANCE][half]}, rewards[half], np.ones(half.sum()), ranks[half])
    weighed = fit_stack(signals, rewards, half.astype(np.float64), ranks)
    assert weighed.weights == pytest.approx(some.weights, abs=1e-3)


def test_the_parts_are_the_score_and_survive_storage() -> None:
    """They add up, and JSON gives back the same stack."""
    stack = LogitStack(weights={RELEVANCE: 2.0, LEARNED: 0.5}, intercept=-1.0, position=-0.3, wrong=0.1)
    signals = {RELEVANCE: np.array([0.5, 1.0]), LEARNED: np.array([-1.0, 2.0]), "unknown": np.ones(2)}
    assert stack.parts(signals).keys() == {RELEVANCE, LEARNED}
    assert sum(stack.parts(signals).values()) == pytest.approx(stack.score(signals))
    assert stack.score(signals) == pytest.approx([0.5, 3.0])
    assert LogitStack.from_dict(json.loads(json.dumps(stack.as_dict()))) == stack


def test_queries_that_are_similar_by_chance_have_no_affinity() -> None:
    """Only the part above a cosine of 0.5 counts; an item without rewards has none."""
    assert affinity_signal([0.0, -0.5, 0.5, 0.8]) == pytest.approx([0, 0, 0, 0.3])
