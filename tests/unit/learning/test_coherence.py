"""Mean, deviation, effective sample size and draws of a prediction come from one distribution, and from the events.

Histories are unanimous, mixed and decayed, in no to three buckets, of items with and without a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.domain.learning.arm import Arm, ItemArms
from retrieval.domain.search.profile_parts import Exploration, PosteriorKind
from retrieval.learning.learned_model import LearnedReward
from retrieval.learning.logistic import SHRUNK, Logistic, Slope
from retrieval.learning.shrinkage import Level, Posterior, Shrinkage, ShrunkEstimate
from retrieval.learning.slate import Ranked, UncertaintyBonus, score_draws

BUCKETS = ("domain=physics", "complexity=low", "cluster=3")
CLUSTER = 5
ROUNDING = 1e-9


@dataclass(frozen=True)
class Event:
    """One verdict on the item."""

    reward: float
    weight: float
    buckets: frozenset[str]
    """Buckets of the requested context; other buckets are left out."""


@st.composite
def models(draw: st.DrawFn) -> Shrinkage:
    """Models that a collection may have; within the results of ``fit_shrinkage``."""
    logits, variances = st.floats(-2.5, 2.5), st.floats(0.0, 1.0)
    concentrations = st.floats(0.5, 12.0)

    def estimate(scale: float) -> ShrunkEstimate:
        return ShrunkEstimate(scale * draw(logits), draw(variances))

    whole = draw(concentrations)
    kinds = [bucket.partition("=")[0] for bucket in BUCKETS]
    buckets = [bucket for bucket in BUCKETS if draw(st.booleans())]
    return Shrinkage(
        anywhere=estimate(1.0),
        uses_coefficient=draw(st.floats(0.0, min(1.0, math.log2(1.0 + 1.0 / whole)))),
        concentration=whole,
        clusters={CLUSTER: estimate(1.0)} if draw(st.booleans()) else {},
        levels={kind: Level(draw(concentrations), 0.05, 0.4) for kind in kinds if draw(st.booleans())},
        buckets={bucket: estimate(0.4) for bucket in buckets},
        cluster_shifts={bucket: {CLUSTER: estimate(0.6)} for bucket in buckets if draw(st.booleans())},
    )


def histories(contexts: Sequence[str]) -> st.SearchStrategy[list[tuple[Event, int]]]:
    """Kinds of events with how often each came."""
    return st.lists(st.tuples(events(contexts), st.sampled_from([1, 2, 5, 40, 300])), max_size=4)


def events(contexts: Sequence[str]) -> st.SearchStrategy[Event]:
    """An event in some of the buckets, often a plain success or failure in all of them."""
    rewards = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0))
    subsets = st.one_of(st.just(frozenset(contexts)), st.frozensets(st.sampled_from(contexts or [""])))
    return st.builds(Event, rewards, st.sampled_from([1.0, 0.3, 2.0]), subsets)


def arms_of(history: Sequence[tuple[Event, int]], fading: float, cluster: int | None) -> ItemArms:
    """The item after these events, all with the same decay."""
    sums: dict[str, tuple[float, float]] = {}
    for event, times in history:
        for bucket in ("", *event.buckets - {""}):
            won, failures = sums.get(bucket, (0.0, 0.0))
            weight = fading * times * event.weight
            sums[bucket] = (won + weight * event.reward, failures + weight * (1.0 - event.reward))
    return ItemArms(item_id="a", arms={bucket: Arm(*both) for bucket, both in sums.items()}, cluster=cluster)


def after(item: ItemArms, event: Event) -> ItemArms:
    """With one more event, unfaded."""
    arms = dict(item.arms)
    for bucket in ("", *event.buckets - {""}):
        won, failures = arms.get(bucket, Arm())[:2]
        arms[bucket] = Arm(won + event.weight * event.reward, failures + event.weight * (1.0 - event.reward))
    return replace(item, arms=arms)


def predicted(model: Shrinkage, contexts: Sequence[str], item: ItemArms) -> Posterior:
    """Through the public door; each array has one number."""
    return LearnedReward(shrinkage=model).predict(("", *contexts), [item])


@st.composite
def cases(draw: st.DrawFn) -> tuple[Shrinkage, tuple[str, ...], ItemArms]:
    """A model, the buckets of a context, and an item with a history."""
    contexts = BUCKETS[: draw(st.integers(0, 3))]
    fading = draw(st.sampled_from([1.0, 0.5, 0.01]))
    item = arms_of(draw(histories(contexts)), fading, draw(st.sampled_from([None, CLUSTER, 8])))
    return draw(models()), contexts, item


@given(cases(), st.data())
@settings(max_examples=50, deadline=None)
def test_one_more_event_never_raises_the_uncertainty(
    case: tuple[Shrinkage, tuple[str, ...], ItemArms], data: st.DataObject
) -> None:
    """An event in exactly this context adds its weight, one elsewhere at most that, whatever its reward."""
    model, contexts, item = case
    event = data.draw(events(contexts))
    before, predictions = predicted(model, contexts, item), predicted(model, contexts, after(item, event))
    worth = predictions.effective_sample_size - before.effective_sample_size

    assert predictions.uncertainty <= before.uncertainty + ROUNDING
    assert -ROUNDING <= worth <= event.weight + ROUNDING * predictions.effective_sample_size
    if event.buckets >= set(contexts):
        assert worth == pytest.approx(event.weight)


@given(cases(), st.sampled_from([1.0, 3.0]))
@settings(max_examples=50, deadline=None)
def test_a_success_never_lowers_the_mean_and_a_failure_never_raises_it(
    case: tuple[Shrinkage, tuple[str, ...], ItemArms], weight: float
) -> None:
    """In just this context."""
    model, contexts, item = case
    lower, same, higher = (
        predicted(model, contexts, history).logit_mean
        for history in (
            after(item, Event(0.0, weight, frozenset(contexts))),
            item,
            after(item, Event(1.0, weight, frozenset(contexts))),
        )
    )

    assert lower <= same + ROUNDING
    assert higher >= same - ROUNDING


@given(cases())
@settings(max_examples=50, deadline=None)
def test_mean_and_deviation_are_those_of_one_beta_distribution(
    case: tuple[Shrinkage, tuple[str, ...], ItemArms],
) -> None:
    """The deviation never exceeds the mean's limit."""
    predictions = predicted(*case)
    most = predictions.mean * (1.0 - predictions.mean)

    assert 0 < predictions.mean < 1
    assert 0 < predictions.sd < most**0.5
    assert predictions.sd <= predictions.uncertainty + ROUNDING
    assert predictions.sd**2 == pytest.approx(most / (predictions.effective_sample_size + 1.0))


@given(cases())
@settings(max_examples=25, deadline=None)
def test_draws_have_that_mean_and_that_deviation(case: tuple[Shrinkage, tuple[str, ...], ItemArms]) -> None:
    """Within five standard errors of 40,000 draws, by the fourth moment of the Beta for those of the deviation."""
    predictions = predicted(*case)
    draws = drawn(predictions, 40_000)
    size, mean, sd = (value.item() for value in (predictions.effective_sample_size, predictions.mean, predictions.sd))
    most = mean * (1.0 - mean)
    # Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 2, 25.2.
    excess = 6.0 * ((1 - 4 * most) * (size + 1) - most * (size + 2)) / (most * (size + 2) * (size + 3))

    assert draws.mean() == pytest.approx(mean, abs=5 * sd / 200)
    assert draws.var() == pytest.approx(sd**2, rel=5 * (max(excess, -1.9) + 2) ** 0.5 / 200 + 1e-6)


def drawn(prediction: Posterior, rows: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Thompson sampling's draws from it."""
    return score_draws([ranked(prediction)], PosteriorKind.SHRUNK, np.random.default_rng(1), rows)[:, 0]


def ranked(prediction: Posterior, item_id: str = "a") -> Ranked:
    """As exploration sees it."""
    return Ranked(
        item_id=item_id,
        score=prediction.mean.item(),
        reward_mean=prediction.mean.item(),
        effective_sample_size=prediction.effective_sample_size.item(),
        uncertainty=prediction.uncertainty.item(),
    )


def unanimous(times: int, reward: float) -> ItemArms:
    """``times`` equal verdicts in each of the three buckets."""
    return arms_of([(Event(reward, 1.0, frozenset(BUCKETS)), times)] if times else [], 1.0, CLUSTER)


@pytest.mark.parametrize("buckets", [0, 1, 2, 3])
@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_equal_verdicts_leave_less_and_less_to_learn(buckets: int, reward: float) -> None:
    """After 12, 24, 48, 96, 200: no item is as uncertain as one that was never tried."""
    predictions = [
        predicted(Shrinkage(), BUCKETS[:buckets], unanimous(times, reward)) for times in (0, 12, 24, 48, 96, 200)
    ]
    deviations = [reward_mean.sd for reward_mean in predictions]

    assert deviations == sorted(deviations, reverse=True)
    assert deviations[-1] < 0.02
    assert [abs(reward_mean.mean - reward) for reward_mean in predictions] == sorted(
        (abs(reward_mean.mean - reward) for reward_mean in predictions), reverse=True
    )


@pytest.mark.parametrize("buckets", [0, 1, 2, 3])
def test_an_item_that_never_failed_may_still_fail(buckets: int) -> None:
    """After 200 successes of 200 the failure rate is that of about one event, not a thousandth; no draw is low."""
    predictions = predicted(Shrinkage(), BUCKETS[:buckets], unanimous(200, 1.0))

    assert 0.1 < 200 * (1.0 - predictions.mean) < 5
    assert drawn(predictions, 10_000).min() > 0.5


@pytest.mark.parametrize("rate", [0.1, 1.0])
@pytest.mark.parametrize("prior", [-4.0, 0.0, 4.0])
def test_the_bonus_never_puts_a_known_failure_before_what_was_never_tried(rate: float, prior: float) -> None:
    """Each failure lowers the sum of score and bonus, whatever similar items earn."""
    model = Shrinkage(anywhere=ShrunkEstimate(prior, 0.5))
    bonuses = [
        ranked(predicted(model, BUCKETS, unanimous(times, 0.0)), str(times)) for times in (96, 48, 24, 12, 3, 1, 0)
    ]
    policy = UncertaintyBonus(Exploration(rate=rate, floor=0.0))
    plan = policy.plan(bonuses, len(bonuses), np.random.default_rng())

    assert [bonuses[place].item_id for place in plan.settled] == ["0", "1", "3", "12", "24", "48", "96"]


@given(cases(), st.data())
@settings(max_examples=40, deadline=None)
def test_the_logistic_model_is_as_sure_as_the_events_are_many(
    case: tuple[Shrinkage, tuple[str, ...], ItemArms], data: st.DataObject
) -> None:
    """Its mean is its own; one more event never lowers its certainty."""
    shrinkage, contexts, item = case
    effects: Mapping[str, Mapping[str, float]] = {"item": {"a": data.draw(st.floats(-5.0, 5.0))}}
    logistic = Logistic(intercept=0.3, slopes={SHRUNK: Slope(0.8, 0.1)}, effects=effects)
    model = LearnedReward(shrinkage=shrinkage, logistic=logistic)
    before, predictions = (
        model.predict(("", *contexts), [history]) for history in (item, after(item, data.draw(events(contexts))))
    )

    assert predictions.uncertainty <= before.uncertainty + ROUNDING
    assert predictions.sd**2 == pytest.approx(
        predictions.mean * (1.0 - predictions.mean) / (predictions.effective_sample_size + 1.0)
    )
    assert before.effective_sample_size == predicted(shrinkage, contexts, item).effective_sample_size
