"""Off-policy estimates in NumPy: worked by hand, true on simulated logs, and right about how sure they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from off_policy_numpy import Traffic, differences, estimates, weigh
from off_policy_simulation import Scenario, measure, one_place, slates

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.off_policy import CLIP, Estimator

NOBODY = float("nan")


def two_searches() -> Traffic:
    """Two searches of two hits each, of which one hit is unrated; weights 2, 0.5, 1 and 0."""
    return Traffic.of_rows(
        retrieval=[0, 0, 1, 1],
        propensity=[0.5, 1.0, 0.8, 0.4],
        target=[1.0, 0.5, 0.8, 0.0],
        reward=[1.0, 0.0, 0.5, NOBODY],
        expected=[2.0, 1.0],
        modelled=[0.5, 0.5, 0.25, 0.0],
        direct=[1.0, 0.5],
    )


def test_ips_divides_the_weighed_rewards_by_what_the_target_would_have_shown() -> None:
    """(2 × 1 + 1 × 0.5) over 2 hits of the first search and, half of the second being rated, 0.5 of its 1."""
    assert estimates(two_searches())[Estimator.IPS].value == pytest.approx((2 * 1 + 0.5 * 0 + 1 * 0.5) / (2 + 0.5))


def test_snips_divides_them_by_the_weights_of_what_is_rated() -> None:
    """The same over 2 + 0.5 + 1."""
    assert estimates(two_searches())[Estimator.SNIPS].value == pytest.approx(2.5 / 3.5)


def test_dr_adds_the_weighed_errors_to_what_the_model_expects() -> None:
    """1.0 + 0.5 × 0.5 expected, and the weighted errors 2 × 0.5, 0.5 × -0.5 and 1 × 0.25."""
    assert estimates(two_searches())[Estimator.DR].value == pytest.approx((1 + 0.25 + 1 - 0.25 + 0.25) / 2.5)


def test_clipping_bounds_every_weight() -> None:
    """A weight of 2 counts as 1."""
    assert estimates(two_searches(), clip=1.0)[Estimator.SNIPS].value == pytest.approx((1 + 0.5) / (1 + 0.5 + 1))


def test_a_default_reward_makes_every_hit_count() -> None:
    """The unrated hit earns 0; its weight is 0 here, so only the shares of rated hits change."""
    by_estimator = estimates(two_searches().with_default(0.0))
    assert by_estimator[Estimator.IPS].value == pytest.approx(2.5 / 3)
    assert by_estimator[Estimator.SNIPS].value == pytest.approx(2.5 / 3.5)


def test_the_recorded_policy_is_worth_what_it_earned() -> None:
    """If target and recorded policy are one, IPS and SNIPS are the mean, with the mean's standard error."""
    rewards = np.array([0.0, 1.0, 1.0, 0.25])
    traffic = Traffic.of_rows(propensity=[0.3] * 4, target=[0.3] * 4, reward=rewards)
    for estimator in (Estimator.IPS, Estimator.SNIPS):
        estimate = estimates(traffic)[estimator]
        assert estimate.value == pytest.approx(rewards.mean())
        assert estimate.standard_error == pytest.approx(rewards.std(ddof=1) / math.sqrt(rewards.size))


def test_a_perfect_model_leaves_dr_nothing_to_correct() -> None:
    """The estimate is then the model's value, whatever the weights."""
    reward = np.array([0.2, 0.9, 0.4])
    traffic = Traffic.of_rows(
        propensity=[0.1, 0.5, 0.9], target=[0.6, 0.5, 0.1], reward=reward, modelled=reward, direct=[0.3, 0.6, 0.5]
    )
    assert estimates(traffic)[Estimator.DR].value == pytest.approx((0.3 + 0.6 + 0.5) / 3)


def test_errors_are_clustered_by_retrieval() -> None:
    """Copies of a search's hits add no information: the error does not shrink."""
    rng = np.random.default_rng(3)
    reward = (rng.random(200) < 0.4).astype(float)
    alone = Traffic.of_rows(propensity=np.ones(200), target=np.ones(200), reward=reward)
    copied = Traffic.of_rows(
        propensity=np.ones(800),
        target=np.ones(800),
        reward=np.repeat(reward, 4),
        retrieval=np.repeat(np.arange(200), 4),
    )
    for estimator in (Estimator.IPS, Estimator.SNIPS):
        first, other = estimates(alone)[estimator], estimates(copied)[estimator]
        assert first.standard_error == pytest.approx(other.standard_error)


def test_the_difference_of_a_target_from_itself_is_certain() -> None:
    """It is 0, with no error: the same rewards are weighed."""
    for difference in differences(two_searches(), two_searches()).values():
        assert (difference.value, difference.standard_error) == (0.0, 0.0)


def test_nothing_rated_is_nothing_estimated() -> None:
    """All figures are NaN, and null in JSON."""
    estimate = estimates(Traffic.of_rows(propensity=[0.5], target=[0.5], reward=[NOBODY]))[Estimator.SNIPS]
    assert estimate.as_dict() == {"value": None, "standard_error": None, "low": None, "high": None}


def test_one_search_has_a_value_and_no_error() -> None:
    """The variance between searches is unknown."""
    estimate = estimates(Traffic.of_rows(propensity=[0.5], target=[0.5], reward=[1.0]))[Estimator.IPS]
    assert estimate.value == 1.0
    assert math.isnan(estimate.standard_error)


@given(st.integers(0, 2**32 - 1))
def test_snips_is_within_its_rewards_and_deaf_to_scaled_propensities(seed: int) -> None:
    """It is a weighted mean; halving every propensity changes nothing."""
    rng = np.random.default_rng(seed)
    propensity, target, reward = rng.uniform(0.2, 1, 30), rng.uniform(0.1, 1, 30), rng.random(30)
    estimate = estimates(Traffic.of_rows(propensity=propensity, target=target, reward=reward))[Estimator.SNIPS]
    halved = estimates(Traffic.of_rows(propensity=propensity / 2, target=target, reward=reward))[Estimator.SNIPS]
    assert reward.min() <= estimate.value <= reward.max()
    assert halved.value == pytest.approx(estimate.value)


@pytest.mark.parametrize("scenario", [one_place, slates])
def test_intervals_hold_the_truth_about_as_often_as_they_say(scenario: Scenario) -> None:
    """Over seeded runs with overlap, 95 % intervals of SNIPS and DR cover .90 to 1; the estimates are not biased."""
    result = measure(scenario, runs=60, searches=1500, floor=0.3, seed=5)
    for estimator in (Estimator.SNIPS, Estimator.DR):
        coverage = result.by_estimator[estimator, False].as_dict()
        assert 0.90 <= coverage["coverage"] <= 1
        assert abs(coverage["bias"]) < 3 * coverage["rmse"] / math.sqrt(60)


def test_the_clip_is_fifty() -> None:
    """A weight of 100 counts as 50 where the clip of the product is used."""
    traffic = Traffic.of_rows(propensity=[0.01, 1.0], target=[1.0, 1.0], reward=[1.0, 0.0])
    assert estimates(traffic, clip=CLIP)[Estimator.SNIPS].value == pytest.approx(50 / 51)


def test_the_figures_are_those_of_the_weights() -> None:
    """Worked by hand: searches with the weights 2 and 0, and 1; the 0 is unrated."""
    weighing = weigh(
        Traffic.of_rows(
            retrieval=[0, 0, 1],
            propensity=[0.5, 1.0, 0.01],
            target=[1.0, 0.0, 0.9],
            reward=[1.0, float("nan"), 0.0],
            expected=[2.0, 1.0],
        )
    )
    assert (weighing.retrievals, weighing.impressions, weighing.rated, weighing.clipped) == (2, 3, 2, 1)
    assert weighing.effective_sample_size == pytest.approx(92**2 / (4 + 90**2))
    assert (weighing.mean_weight, weighing.expected_weight, weighing.max_weight) == pytest.approx((46, 1.5, 90))
    assert weighing.weight_error == pytest.approx(np.std([0, 89], ddof=1) / math.sqrt(2))


def test_missing_support_shows_in_the_mean_weight() -> None:
    """A policy without chance, asked about one that shows another item in three searches of ten."""
    target = np.tile([1.0] * 7 + [0.0] * 3, 50)
    weighing = weigh(Traffic.of_rows(propensity=np.ones(500), target=target, reward=np.ones(500)))
    assert weighing.unsupported == pytest.approx(0.3)
    assert not weighing.is_balanced
    assert "30% of what it shows was never possible" in weighing.objections()[0]


def test_no_traffic_concludes_nothing() -> None:
    """The figures are null in JSON, and the objection says what to do."""
    nothing = weigh(Traffic.of_rows(propensity=[], target=[], reward=[]))
    assert "record searches" in nothing.objections()[0]
    assert nothing.as_dict()["mean_weight"] is None


GOOD: dict[str, Any] = {"propensity": [0.5, 1.0], "target": [0.0, 1.0], "reward": [1.0, 0.0]}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"propensity": [0.0, 1.0]}, "propensity"),
        ({"propensity": [0.5, 1.5]}, "propensity"),
        ({"propensity": [0.5, np.nan]}, "propensity"),
        ({"target": [0.0, 1.1]}, "target probability"),
        ({"target": [0.0]}, "an impression"),
        ({"retrieval": [0, 3], "expected": [1.0]}, "numbered"),
        ({"expected": [1.0, 1.0], "direct": [1.0]}, "a retrieval"),
    ],
)
def test_invalid_arguments_are_refused(changed: dict[str, Any], message: str) -> None:
    """The message names the fault."""
    with pytest.raises(InvalidRequestError, match=message):
        Traffic.of_rows(**{**GOOD, **changed})


@pytest.mark.parametrize("reward", [-0.1, 1.1])
def test_a_default_reward_outside_its_range_is_refused(reward: float) -> None:
    """It is a reward like any other."""
    with pytest.raises(InvalidRequestError, match="0 to 1"):
        Traffic.of_rows(**GOOD).with_default(reward)


def test_no_traffic_is_traffic() -> None:
    """Without a row every sum is empty."""
    traffic = Traffic.of_rows(propensity=[], target=[], reward=[])
    assert traffic.shown.size == traffic.rated.size == 0
