"""The expected rewards, the objections to a comparison, and the verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retrieval.domain.learning.off_policy import Estimate, Weighing
from retrieval.learning.interleaving import preference
from retrieval.learning.off_policy import RewardModel, by_preference, judge


def test_the_interval_is_the_normal_one() -> None:
    """1.96 standard errors on both sides."""
    estimate = Estimate(value=0.5, standard_error=0.1)
    assert (estimate.low, estimate.high) == pytest.approx((0.304, 0.696), abs=1e-4)


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


def test_a_sample_of_two_hundred_is_enough() -> None:
    """One less is not enough, and the message says so."""
    assert replace(FINE, effective_sample_size=200.0).objections() == ()
    (message,) = replace(FINE, effective_sample_size=199.4).objections()
    assert message.startswith("its effective sample size is 199, below 200")


def test_weights_that_add_up_to_too_much_are_nobodys_propensities() -> None:
    """Support cannot explain that."""
    (message,) = replace(FINE, mean_weight=1.3).objections()
    assert "the recorded propensities cannot be right" in message


def test_a_mean_weight_within_its_error_or_one_per_cent_is_balanced() -> None:
    """Three standard errors, or a hundredth of the slate."""
    assert replace(FINE, mean_weight=1.059).is_balanced
    assert replace(FINE, mean_weight=1.009, weight_error=0.0).is_balanced
    assert not replace(FINE, mean_weight=0.985, weight_error=0.001).is_balanced


@pytest.mark.parametrize(
    ("difference", "better", "message"),
    [
        (BETTER, "new", "new is better than old: +0.1000 (95 % interval +0.0804 to +0.1196)"),
        (WORSE, "old", "old is better than new: +0.1000 (95 % interval +0.0804 to +0.1196)"),
        (UNSURE, None, "no difference is shown between the two"),
    ],
)
def test_the_interval_of_the_difference_decides(difference: Estimate, better: str | None, message: str) -> None:
    """Better is what the interval leaves no doubt about."""
    verdict = judge(("new", "old"), (FINE, FINE), difference)
    assert (verdict.is_conclusive, verdict.better) == (True, better)
    assert verdict.text.startswith(message)


def test_an_objection_to_either_prevents_a_conclusion() -> None:
    """However clear the difference seems."""
    poor = replace(FINE, effective_sample_size=12.0)
    for weighings in ((poor, FINE), (FINE, poor)):
        verdict = judge(("new", "old"), weighings, BETTER)
        assert (verdict.is_conclusive, verdict.better) == (False, None)
        assert "effective sample size is 12, below 200" in verdict.text


@pytest.mark.parametrize(
    ("won", "losses", "better"), [(30, 10, "new"), (10, 30, "old"), (11, 10, None), (5, 0, None), (6, 0, "new")]
)
def test_interleaved_searches_are_judged_by_a_sign_test(won: int, losses: int, better: str | None) -> None:
    """Five searches can never be enough; six can."""
    verdict = by_preference(("new", "old"), preference([(1.0, 0.0)] * won + [(0.0, 1.0)] * losses + [(1.0, 1.0)] * 3))
    assert verdict.better == better
    assert verdict.is_conclusive == (won + losses > 5)


def model_of(**rewards: dict[str, float]) -> RewardModel:
    """A model with these rewards by retrieval."""
    model = RewardModel()
    for retrieval_id, its in rewards.items():
        model.add(retrieval_id, its)
    return model


def test_an_item_is_shrunk_to_what_all_items_earn() -> None:
    """(its rewards + 10 × the mean of all) / (its uses + 10), worked by hand."""
    model = model_of(r1={"a": 1.0, "b": 0.0}, r2={"a": 1.0, "b": 0.0})
    assert model.predict("another", "a") == pytest.approx((2 + 10 * 0.5) / 12)
    assert model.predict("another", "never seen") == pytest.approx(0.5)


def test_a_retrieval_hears_nothing_of_itself() -> None:
    """Its rewards change only the predictions for others."""
    low = model_of(r1={"a": 0.0}, r2={"a": 0.5, "b": 1.0})
    high = model_of(r1={"a": 1.0}, r2={"a": 0.5, "b": 1.0})
    assert low.predict("r1", "a") == pytest.approx(high.predict("r1", "a"))
    assert low.predict("r1", "b") == pytest.approx(high.predict("r1", "b"))
    assert low.predict("r2", "a") < high.predict("r2", "a")


def test_nothing_rated_is_even_chances() -> None:
    """Also for the only retrieval that was."""
    assert RewardModel().predict("r1", "a") == 0.5
    assert model_of(r1={"a": 1.0}).predict("r1", "a") == 0.5
