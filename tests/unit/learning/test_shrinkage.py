"""Shrinkage: an item's own events against what its like earned."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.domain.learning.arm import Arm, ItemArms
from retrieval.learning.arm_table import arm_table
from retrieval.learning.logit import sigmoid
from retrieval.learning.shrinkage import MOST_CONCENTRATION, Level, Shrinkage, ShrunkEstimate, fit_shrinkage, posterior

DOMAIN = "domain=physics"
KNOWN = Shrinkage(
    anywhere=ShrunkEstimate(math.log(0.2 / 0.8), 0.0),
    concentration=5.0,
    levels={"domain": Level(4.0, 0.1, 0.0)},
    buckets={DOMAIN: ShrunkEstimate(0.0, 0.0)},
)
"""A collection whose rate of 20 % is known for certain."""

events = st.integers(0, 40)


def item(*counts: float, cluster: int | None = None, name: str = "a") -> ItemArms:
    """An item with successes and failures anywhere and, if given, in the domain."""
    arms = {"": Arm(counts[0], counts[1])}
    inside = {DOMAIN: Arm(counts[2], counts[3])} if len(counts) > 2 else {}
    return ItemArms(item_id=name, arms=arms | inside, cluster=cluster)


def rate(model: Shrinkage, item_arms: ItemArms, *buckets: str) -> float:
    """The expected reward of one item."""
    return float(sigmoid(posterior(model, ("", *buckets), [item_arms]).logit_mean)[0])


def many(count: int = 40, seed: int = 3) -> list[ItemArms]:
    """Items of three clusters, the first of them the best, each with up to 30 events."""
    rng = np.random.default_rng(seed)
    histories = []
    for number in range(count):
        cluster, uses = number % 3, int(rng.integers(0, 30))
        inside = int(rng.integers(0, uses + 1))
        won = int(rng.binomial(uses, (0.8, 0.5, 0.3)[cluster]))
        won_inside = min(won, inside, int(rng.binomial(inside, 0.7)))
        lost_inside = min(inside - won_inside, uses - won)
        histories.append(item(won, uses - won, won_inside, lost_inside, cluster=cluster, name=str(number)))
    return histories


FITTED = fit_shrinkage(arm_table(many()))
"""The model fitted to those items."""


@pytest.mark.parametrize(("won", "failures"), [(0, 0), (3, 1), (0, 9), (100, 20)])
def test_an_item_under_a_known_rate_has_the_beta_binomial_mean(won: float, failures: float) -> None:
    """(successes + m × rate) / (uses + m), by the closed form of a Beta prior."""
    assert rate(KNOWN, item(won, failures)) == pytest.approx((won + 5 * 0.2) / (won + failures + 5))


def test_an_item_in_a_bucket_is_shrunk_to_what_it_earned_elsewhere() -> None:
    """Its rate elsewhere is the prior mean in the bucket; the 10 events weigh 1 / (1 / 10 + 1 / 4)."""
    elsewhere, weight = (5 + 5 * 0.2) / (5 + 5), 1 / (1 / 10 + 1 / 4)

    assert rate(KNOWN, item(6, 2, 1, 2), DOMAIN) == pytest.approx((1 + weight * elsewhere) / (3 + weight))


def test_an_item_that_was_used_in_one_bucket_alone_is_shrunk_to_its_like_there() -> None:
    """Its events count once: 3 of 3 with a prior rate of 20 % that weighs 1 / (1 / 5 + 1 / 4) uses."""
    weight = 1 / (1 / 5 + 1 / 4)

    assert rate(KNOWN, item(3, 0, 3, 0), DOMAIN) == pytest.approx((3 + weight * 0.2) / (3 + weight))


def test_a_bucket_that_is_unknown_to_everyone_changes_nothing_but_the_uncertainty() -> None:
    """There is no reason to expect more or less there."""
    here, elsewhere = (posterior(KNOWN, buckets, [item(6, 2)]) for buckets in (("",), ("", "cluster=9")))

    assert sigmoid(elsewhere.logit_mean)[0] == pytest.approx(sigmoid(here.logit_mean)[0], abs=0.01)
    assert elsewhere.effective_sample_size[0] < here.effective_sample_size[0]


def test_several_buckets_add_up_on_the_logit_scale() -> None:
    """With b buckets: the sum of the item's logits in them, less b - 1 times the item's own."""
    model = Shrinkage(
        anywhere=ShrunkEstimate(0.0, 0.0), buckets={"x=1": ShrunkEstimate(1.0, 0.0), "y=1": ShrunkEstimate(-0.3, 0.0)}
    )
    history = ItemArms(item_id="a", arms={"": Arm(2, 2)})
    first, other, both = (
        posterior(model, buckets, [history]).logit_mean[0] for buckets in (("x=1",), ("y=1",), ("x=1", "y=1"))
    )
    alone = posterior(model, (), [history]).logit_mean[0]

    assert both == pytest.approx(first + other - alone, abs=0.1)
    assert first > alone > other


@given(events, events, events, events, st.floats(-2, 2))
@settings(max_examples=30, deadline=None)
def test_more_successes_never_lower_the_mean_and_more_failures_never_raise_it(
    won: int, lost: int, won_inside: int, lost_inside: int, base: float
) -> None:
    """An event counts for the item and in the bucket."""
    model = Shrinkage(
        anywhere=ShrunkEstimate(base, 0.5),
        levels={"domain": Level(8.0, 0.1, 0.4)},
        buckets={DOMAIN: ShrunkEstimate(0.3, 0.1)},
    )
    counts = (won + won_inside, lost + lost_inside, won_inside, lost_inside)
    before = rate(model, item(*counts), DOMAIN)
    success = rate(model, item(counts[0] + 1, counts[1], counts[2] + 1, counts[3]), DOMAIN)
    failure = rate(model, item(counts[0], counts[1] + 1, counts[2], counts[3] + 1), DOMAIN)

    assert failure <= before + 1e-12
    assert success >= before - 1e-12


def test_every_event_adds_to_what_is_known() -> None:
    """One in this context as one, one elsewhere as less."""
    here, elsewhere = (
        [float(posterior(FITTED, (DOMAIN,), [item]).effective_sample_size[0]) for item in items]
        for items in (
            [item(n, n, n, n, cluster=1) for n in (0, 1, 5, 50, 5_000)],
            [item(n, n, cluster=1) for n in (0, 1, 5, 50, 5_000)],
        )
    )

    assert [size - here[0] for size in here] == pytest.approx([0, 2, 10, 100, 10_000])
    assert elsewhere == sorted(elsewhere)
    assert elsewhere[-1] < here[0] + FITTED.levels["domain"].concentration


def test_the_order_of_the_items_makes_no_difference() -> None:
    """Neither the model nor the predictions depend on it."""
    items = many()
    there, back = fit_shrinkage(arm_table(items)), fit_shrinkage(arm_table(items[::-1]))

    assert there.concentration == pytest.approx(back.concentration, rel=1e-6)
    assert posterior(there, (DOMAIN,), items).logit_mean == pytest.approx(
        posterior(back, (DOMAIN,), items[::-1]).logit_mean[::-1], abs=1e-6
    )


def test_a_new_item_starts_at_what_its_cluster_earned() -> None:
    """The first cluster earned most, the third least, and a new one is in between."""
    model = fit_shrinkage(arm_table(many(120)))
    best, worst, unknown = (rate(model, item(0, 0, cluster=cluster)) for cluster in (0, 2, None))

    assert best > 0.6 > unknown > 0.4 > worst


def test_a_bucket_in_which_all_items_do_better_raises_them_all() -> None:
    """Even an item that was never shown there."""
    items = [item(5 + 9, 5 + 1, 9, 1, name=str(number)) for number in range(20)]
    model = fit_shrinkage(arm_table(items))

    assert rate(model, item(5, 5), DOMAIN) > rate(model, item(5, 5)) + 0.1


def test_the_concentration_is_high_where_items_are_alike_and_low_where_they_differ() -> None:
    """The concentration never exceeds the cap."""
    alike = [item(5, 5, name=str(number)) for number in range(50)]
    apart = [item(10 * (number % 2), 10 * (1 - number % 2), name=str(number)) for number in range(50)]

    assert fit_shrinkage(arm_table(alike)).concentration == pytest.approx(MOST_CONCENTRATION, abs=0.01)
    assert fit_shrinkage(arm_table(apart)).concentration < 2


def test_nothing_at_all_is_one_half_and_wide() -> None:
    """A cold platform, fitted to no items or never fitted."""
    for model in (fit_shrinkage(arm_table([])), Shrinkage()):
        estimates = posterior(model, ("", DOMAIN), [item(0, 0, cluster=7)])
        assert sigmoid(estimates.logit_mean)[0] == pytest.approx(0.5)
        assert estimates.effective_sample_size[0] < 3


def test_a_stored_shrinkage_comes_back_equal() -> None:
    """Through JSON and back nothing is lost."""
    assert Shrinkage.from_dict(json.loads(json.dumps(FITTED.as_dict()))) == FITTED
