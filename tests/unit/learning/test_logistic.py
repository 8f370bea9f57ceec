"""The logistic model: nested effects, numbers, and predictions for unseen items."""

from __future__ import annotations

import numpy as np
import pytest

from retrieval.domain.learning.arm import ItemArms
from retrieval.learning.examples import Event
from retrieval.learning.logistic import (
    RANK,
    RELEVANCE,
    Logistic,
    choose_spreads,
    design_of,
    fit_logistic,
    logistic_mean,
)
from retrieval.learning.logit import sigmoid

DOMAINS = ("domain=x", "domain=y")
CLUSTERS = {"good": 1, "bad": 2, "fickle": 1}


def make_events(count: int, seed: int = 5) -> list[Event]:
    """Three items: one is good, one bad, one good in one domain only; relevance helps, a low rank hides."""
    rng = np.random.default_rng(seed)
    events = []
    for _ in range(count):
        name = str(rng.choice(list(CLUSTERS)))
        domain = str(rng.choice(DOMAINS))
        relevance, rank = float(rng.uniform(0.05, 0.95)), int(rng.integers(1, 6))
        base = {"good": 1.5, "bad": -1.5, "fickle": 1.5 if domain == "domain=x" else -1.5}[name]
        chance = sigmoid(np.array(base + 1.0 * np.log(relevance / (1 - relevance)) - 0.8 * np.log(rank)))
        helped = float(rng.random() < chance)
        signals = {"dense": relevance} if rank < 4 else {}
        event = Event(
            item_id=name, buckets=("", domain), reward=helped, relevance=relevance, rank=rank, signals=signals
        )
        events.append(event)
    return events


@pytest.fixture(scope="module")
def events() -> list[Event]:
    """Enough to learn from."""
    return make_events(1_500)


@pytest.fixture(scope="module")
def model(events: list[Event]) -> Logistic:
    """Fitted to them."""
    return fit_logistic(design_of(events, CLUSTERS))


def rate(model: Logistic, name: str, *buckets: str, relevance: float = 0.5) -> float:
    """The expected reward of one item at rank 1."""
    item = ItemArms(item_id=name, cluster=CLUSTERS.get(name))
    mean, _ = logistic_mean(model, buckets, [item], {RELEVANCE: np.array([relevance])})
    return float(sigmoid(mean)[0])


def test_the_model_learns_which_item_helps_and_where(model: Logistic) -> None:
    """The good item everywhere, the bad one nowhere, the fickle one in its domain."""
    for domain in DOMAINS:
        assert rate(model, "good", domain) > 0.7
        assert rate(model, "bad", domain) < 0.3
    assert rate(model, "fickle", "domain=x") > 0.7
    assert rate(model, "fickle", "domain=y") < 0.3


def test_relevance_counts_and_the_rank_is_only_a_nuisance(model: Logistic) -> None:
    """A prediction is for rank 1, where users see an item most."""
    assert rate(model, "good", "domain=x", relevance=0.9) > rate(model, "good", "domain=x", relevance=0.2) + 0.1
    assert model.slopes[RANK].weight == pytest.approx(-0.8, abs=0.35)


def test_a_prediction_at_a_given_rank_is_lower(model: Logistic) -> None:
    """Such predictions evaluate the model on shown hits."""
    item = [ItemArms(item_id="good", cluster=1)]
    first, fifth = (logistic_mean(model, ("domain=x",), item, {RANK: np.array([rank])})[0][0] for rank in (1.0, 5.0))

    assert fifth == pytest.approx(first + model.slopes[RANK].weight * np.log(5))


def test_unseen_effects_add_nothing(model: Logistic) -> None:
    """An unknown item of a known cluster, and an unknown bucket, are what their like are."""
    items = [ItemArms(item_id=name, cluster=1) for name in ("new", "good")]
    new, good = logistic_mean(model, ("domain=z",), items, {})[0]

    assert new == logistic_mean(model, (), items, {})[0][0]
    assert good - new == pytest.approx(model.effects["item"]["good"])


def test_the_weights_are_where_the_posterior_is_highest() -> None:
    """An oracle: one item and nothing else, whose intercept and effect are found by SciPy too."""
    from scipy.optimize import minimize

    events = [Event(item_id="a", buckets=(), reward=reward) for reward in [1.0] * 14 + [0.0] * 6]
    design = design_of(events, {})
    model, spread = fit_logistic(design), choose_spreads(design)["item"]

    def cost(weights: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        score = weights.sum()
        return float(20 * np.logaddexp(0, score) - 14 * score + weights[0] ** 2 / 8 + weights[1] ** 2 / 2 / spread**2)

    assert [model.intercept, model.effects["item"]["a"]] == pytest.approx(minimize(cost, np.zeros(2)).x, abs=1e-3)


def test_an_event_counts_as_often_as_it_weighs() -> None:
    """Two events are one of weight two."""
    twice = [Event(item_id="a", buckets=(), reward=reward) for reward in (1.0, 0.3)] * 2  # too few to hold any out
    once = [Event(item_id="a", buckets=(), reward=reward, weight=2.0) for reward in (1.0, 0.3)]
    first, other = (fit_logistic(design_of(events, {})) for events in (twice, once))

    assert first.intercept == pytest.approx(other.intercept, rel=1e-6)


def test_a_block_without_effects_gets_a_small_scale_and_one_with_strong_ones_a_large_one() -> None:
    """Held-out events choose: sixty items differ, and each is the same in both domains."""
    rng = np.random.default_rng(0)
    chances = sigmoid(rng.normal(0, 1.5, 60))
    rows = [
        (int(item), str(domain))
        for item, domain in zip(rng.integers(0, 60, 3_000), rng.choice(DOMAINS, 3_000), strict=True)
    ]
    events = [
        Event(item_id=str(item), buckets=(domain,), reward=float(rng.random() < chances[item])) for item, domain in rows
    ]
    spreads = choose_spreads(design_of(events, {}))

    assert spreads["item"] >= 0.7
    assert spreads["item in domain"] <= 0.25


def test_a_model_of_nothing_but_an_intercept_predicts_it() -> None:
    """For any item."""
    model = Logistic(intercept=1.0)

    assert rate(model, "anything") == pytest.approx(float(sigmoid(np.array(1.0))))
