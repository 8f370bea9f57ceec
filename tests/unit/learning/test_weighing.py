"""The weights of a target: what they must add up to, and when nothing may be concluded from them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from retrieval.domain.learning.off_policy import Estimate, Weighing
from retrieval.learning.interleaving import preference
from retrieval.learning.off_policy import Traffic, by_preference, judge, weigh

FINE = Weighing(
    retrievals=1000,
    impressions=1000,
    rated=400,
    effective_sample_size=390.0,
    mean_weight=1.02,
    expected_weight=1.0,
    weight_error=0.02,
    max_weight=7.0,
    clipped=0,
)
BETTER, UNSURE = Estimate(value=0.1, standard_error=0.01), Estimate(value=0.1, standard_error=0.1)
WORSE = Estimate(value=-0.1, standard_error=0.01)


def test_the_figures_are_those_of_the_weights() -> None:
    """Worked by hand: searches with the weights 2 and 0, and 1; the 0 is unrated."""
    found = weigh(
        Traffic.of_rows(
            retrieval=[0, 0, 1],
            propensity=[0.5, 1.0, 0.01],
            target=[1.0, 0.0, 0.9],
            reward=[1.0, float("nan"), 0.0],
            expected=[2.0, 1.0],
        )
    )
    assert (found.retrievals, found.impressions, found.rated, found.clipped) == (2, 3, 2, 1)
    assert found.effective_sample_size == pytest.approx(92**2 / (4 + 90**2))
    assert (found.mean_weight, found.expected_weight, found.max_weight) == pytest.approx((46, 1.5, 90))
    assert found.weight_error == pytest.approx(np.std([0, 89], ddof=1) / math.sqrt(2))


def test_what_the_recorded_policy_never_shows_is_seen_in_the_mean_weight() -> None:
    """A policy without chance, asked about one that shows another item in three searches of ten."""
    target = np.tile([1.0] * 7 + [0.0] * 3, 50)
    found = weigh(Traffic.of_rows(propensity=np.ones(500), target=target, reward=np.ones(500)))
    assert found.unsupported == pytest.approx(0.3)
    assert not found.is_balanced
    assert "30% of what it shows was never possible" in found.objections()[0]


def test_a_sample_of_two_hundred_is_enough() -> None:
    """And one below is not, which is said."""
    assert replace(FINE, effective_sample_size=200.0).objections() == ()
    (said,) = replace(FINE, effective_sample_size=199.4).objections()
    assert said.startswith("its effective sample size is 199, below 200")


def test_weights_that_add_up_to_too_much_are_nobodys_propensities() -> None:
    """Support cannot explain that."""
    (said,) = replace(FINE, mean_weight=1.3).objections()
    assert "the recorded propensities cannot be right" in said


def test_a_mean_weight_within_its_error_or_one_per_cent_is_balanced() -> None:
    """Three standard errors, or a hundredth of the slate."""
    assert replace(FINE, mean_weight=1.059).is_balanced
    assert replace(FINE, mean_weight=1.009, weight_error=0.0).is_balanced
    assert not replace(FINE, mean_weight=0.985, weight_error=0.001).is_balanced


def test_no_traffic_concludes_nothing() -> None:
    """The figures are null in JSON, and the objection says what to do."""
    nothing = weigh(Traffic.of_rows(propensity=[], target=[], reward=[]))
    assert "give feedback" in nothing.objections()[0]
    assert nothing.as_dict()["mean_weight"] is None


@pytest.mark.parametrize(
    ("difference", "better", "said"),
    [
        (BETTER, "new", "new is better than old: +0.1000 (95 % interval +0.0804 to +0.1196)"),
        (WORSE, "old", "old is better than new: -0.1000"),
        (UNSURE, None, "no difference is shown between the two"),
    ],
)
def test_the_interval_of_the_difference_decides(difference: Estimate, better: str | None, said: str) -> None:
    """Better is what the interval leaves no doubt about."""
    verdict = judge(("new", "old"), (FINE, FINE), difference)
    assert (verdict.is_conclusive, verdict.better) == (True, better)
    assert verdict.text.startswith(said)


def test_an_objection_to_either_is_no_conclusion() -> None:
    """However clear the difference seems."""
    poor = replace(FINE, effective_sample_size=12.0)
    for weighings in ((poor, FINE), (FINE, poor)):
        verdict = judge(("new", "old"), weighings, BETTER)
        assert (verdict.is_conclusive, verdict.better) == (False, None)
        assert "effective sample size is 12, below 200" in verdict.text


@pytest.mark.parametrize(
    ("won", "lost", "better"), [(30, 10, "new"), (10, 30, "old"), (11, 10, None), (5, 0, None), (6, 0, "new")]
)
def test_interleaved_searches_are_judged_by_a_sign_test(won: int, lost: int, better: str | None) -> None:
    """Five searches can never be enough; six can."""
    verdict = by_preference(("new", "old"), preference([(1.0, 0.0)] * won + [(0.0, 1.0)] * lost + [(1.0, 1.0)] * 3))
    assert verdict.better == better
    assert verdict.is_conclusive == (won + lost > 5)
