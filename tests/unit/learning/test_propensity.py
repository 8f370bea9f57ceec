"""Propensities of Thompson sampling are exact: by hand, by integration, and by counting; eligibility for a slot."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.learning.arm import Arm
from retrieval.domain.search.profile_parts import Exploration, PosteriorKind
from retrieval.learning.arm_table import Floats
from retrieval.learning.slate import (
    Lottery,
    Ranked,
    finite_rows,
    is_eligible,
    score_draws,
)
from tests.support.probability import beta_in_logits, covariance_of_one, normal, on_top, p_value

SUCCESSES = np.array([0.0, 1.0, 4.0, 0.0, 2.0, 0.0, 3.0, 1.0])
FAILURES = np.array([0.0, 1.0, 0.0, 3.0, 2.0, 1.0, 1.0, 0.0])
MEANS = np.array([-0.5, 0.0, 0.2, 0.4, -1.0, 0.1, 0.9, 0.3])
DEVIATIONS = np.array([1.0, 0.8, 0.3, 0.9, 1.5, 0.1, 0.4, 0.7])


def test_by_hand() -> None:
    """a has two of four rows, b and c one each; a tenth of the time it is any of the four candidates."""
    draws = np.array([[0.9, 0.1, 0.2, 0.0], [0.8, 0.1, 0.2, 0.3], [0.1, 0.9, 0.2, 0.3], [0.1, 0.2, 0.9, 0.3]])

    propensities = finite_rows(draws, 1, 0.1).propensities

    assert propensities == pytest.approx([0.9 * 0.5 + 0.025, 0.9 * 0.25 + 0.025, 0.9 * 0.25 + 0.025, 0.025])


def beta_draws(rows: int, rng: np.random.Generator) -> Floats:
    """Rows of draws from the posteriors of the items, shape (rows, items)."""
    return rng.beta(SUCCESSES + 1, FAILURES + 1, (rows, len(SUCCESSES)))


def test_two_slots_by_hand() -> None:
    """The two highest of each row."""
    draws = np.array([[0.9, 0.8, 0.2], [0.1, 0.8, 0.9]])

    assert finite_rows(draws, 2, 0.3).propensities == pytest.approx([0.55, 0.9, 0.55])


@pytest.mark.parametrize("slots", [1, 2])
def test_many_rows_of_beta_posteriors_come_to_the_integral(slots: int) -> None:
    """The shares lie within five standard errors of the probability to be on top of a fresh draw."""
    rows = 100_000
    laws = [beta_in_logits(won, failures) for won, failures in zip(SUCCESSES, FAILURES, strict=True)]
    expected = on_top(laws, slots)

    propensities = finite_rows(beta_draws(rows, np.random.default_rng(1)), slots, 0.0).propensities

    assert expected.sum() == pytest.approx(slots, abs=1e-3)
    assert (np.abs(propensities - expected) < 5 * np.sqrt(expected * (1 - expected) / rows) + 1e-4).all()


@pytest.mark.parametrize("slots", [1, 2])
def test_many_rows_of_normal_posteriors_come_to_the_integral(slots: int) -> None:
    """The same for normal distributions."""
    rows = 100_000
    expected = on_top([normal(mean, deviation) for mean, deviation in zip(MEANS, DEVIATIONS, strict=True)], slots)

    draws = MEANS + DEVIATIONS * np.random.default_rng(2).standard_normal((rows, len(MEANS)))
    propensities = finite_rows(draws, slots, 0.0).propensities

    assert expected.sum() == pytest.approx(slots, abs=1e-3)
    assert (np.abs(propensities - expected) < 5 * np.sqrt(expected * (1 - expected) / rows) + 1e-4).all()


def joint(lottery: Lottery) -> Floats:
    """The probability of each two to be drawn together, from the rows themselves."""
    indicators = np.zeros((len(lottery.tops), lottery.size))
    np.put_along_axis(indicators, lottery.tops, 1.0, axis=1)
    rare = lottery.floor * lottery.slots / lottery.size
    uniform = np.full((lottery.size,) * 2, rare * (lottery.slots - 1) / (lottery.size - 1))
    np.fill_diagonal(uniform, rare)
    probabilities: Floats = (1 - lottery.floor) * indicators.T @ indicators / len(indicators) + uniform
    return probabilities


@pytest.mark.parametrize("slots", [1, 2])
def test_one_set_of_rows_is_drawn_from_as_often_as_it_says(slots: int) -> None:
    """20,000 drawings from the same rows, against the probabilities of those rows."""
    rng = np.random.default_rng(3 + slots)
    lottery = finite_rows(beta_draws(64, rng), slots, 0.2)
    drawings = 20_000

    draws_made = np.concatenate([lottery.draw(rng) for _ in range(drawings)])
    counts = np.bincount(draws_made, minlength=lottery.size).astype(float)

    assert np.diag(joint(lottery)) == pytest.approx(lottery.propensities)
    assert p_value(counts, drawings * lottery.propensities, drawings * covariance_of_one(joint(lottery))) > 0.001


def test_drawings_from_many_sets_of_rows_are_as_often_as_they_say() -> None:
    """Each set of rows has its own probabilities: the draws agree with their sum."""
    rng = np.random.default_rng(6)
    counts, expected, covariance = np.zeros(8), np.zeros(8), np.zeros((8, 8))
    for _ in range(100):
        lottery = finite_rows(beta_draws(32, rng), 2, 0.1)
        for _ in range(200):
            counts[lottery.draw(rng)] += 1
        expected += 200 * lottery.propensities
        covariance += 200 * covariance_of_one(joint(lottery))

    assert counts.sum() == 40_000
    assert p_value(counts, expected, covariance) > 0.001


def test_wrong_propensities_are_found_out() -> None:
    """The same test rejects what a softmax of the posterior means would have logged."""
    rng = np.random.default_rng(7)
    lottery = finite_rows(beta_draws(1024, rng), 1, 0.1)
    means = (SUCCESSES + 1) / (SUCCESSES + FAILURES + 2)
    logged = np.exp(means) / np.exp(means).sum()
    draws_made = np.concatenate([lottery.draw(rng) for _ in range(2000)])
    counts = np.bincount(draws_made, minlength=8).astype(float)

    assert p_value(counts, 2000 * logged, 2000 * covariance_of_one(np.diag(logged))) < 1e-6


@given(
    size=st.integers(1, 12),
    rows=st.integers(1, 9),
    floor=st.floats(0, 1),
    slots=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_propensities_add_up_to_the_slots_and_the_floor_holds(
    size: int, rows: int, floor: float, slots: int, seed: int
) -> None:
    """This holds for any draws, including ties; every probability is at least the floor's share, and at most 1."""
    slots = min(slots, size)
    rng = np.random.default_rng(seed)
    lottery = finite_rows(rng.integers(0, 3, (rows, size)).astype(float), slots, floor)
    propensities = lottery.propensities

    assert propensities.sum() == pytest.approx(slots, abs=1e-9)
    assert propensities.min() >= floor * slots / size - 1e-12
    assert propensities.max() <= 1
    draws_made = lottery.draw(rng)
    assert len(set(draws_made.tolist())) == slots
    assert (propensities[draws_made] > 0).all()


ROWS = 20_000


def test_the_beta_posterior_is_that_of_the_raw_counts() -> None:
    """Mean (successes + 1) / (uses + 2), whatever was learned or decayed."""
    arm = Arm(successes=0.1, failures=0.1, uses=4, raw_successes=3)
    candidates = [Ranked(item_id="a", arm=arm, reward_mean=0.01, effective_sample_size=99), Ranked(item_id="b")]

    draws = score_draws(candidates, PosteriorKind.BETA, np.random.default_rng(1), ROWS)

    assert draws.mean(axis=0) == pytest.approx([4 / 6, 0.5], abs=0.01)
    assert draws[:, 0].var() == pytest.approx(4 * 2 / (36 * 7), abs=0.003)


def test_the_shrunk_posterior_is_that_of_the_learned_reward() -> None:
    """Without a learned reward it is that of the raw counts; each candidate has its column."""
    candidates = [
        Ranked(item_id="new"),
        Ranked(item_id="learned", reward_mean=0.7, effective_sample_size=20),
        Ranked(item_id="used", arm=Arm(uses=8, raw_successes=0)),
    ]

    draws = score_draws(candidates, PosteriorKind.SHRUNK, np.random.default_rng(2), ROWS)

    assert draws.mean(axis=0) == pytest.approx([0.5, 0.7, 0.1], abs=0.01)
    assert draws[:, 1].std() == pytest.approx((0.7 * 0.3 / 21) ** 0.5, rel=0.03)


def test_extreme_beliefs_stay_rates() -> None:
    """There is no error and no warning, and the order of the means stays."""
    candidates = [Ranked(item_id=str(mean), reward_mean=mean, effective_sample_size=1e12) for mean in (0.0, 0.5, 1.0)]

    draws = score_draws(candidates, PosteriorKind.SHRUNK, np.random.default_rng(3), 2)

    assert draws == pytest.approx(np.array([[0.0, 0.5, 1.0]] * 2), abs=1e-5)
    assert score_draws([], PosteriorKind.SHRUNK, np.random.default_rng(3), 2).shape == (2, 0)


def test_counters_that_have_drifted_break_no_search() -> None:
    """With more successes than uses, all uses count as successes."""
    drifted = Ranked(item_id="a", arm=Arm(uses=1, raw_successes=3))

    draws = score_draws([drifted], PosteriorKind.BETA, np.random.default_rng(4), ROWS)

    assert draws.mean() == pytest.approx(4 / 5, abs=0.01)


def test_a_score_is_drawn_with_the_relevance_that_it_has() -> None:
    """.7 × .5 + .3 × the reward; with the share 1, the reward alone."""
    candidates = [
        Ranked(item_id="a", relevance=0.5, learned_share=0.3, reward_mean=0.5, effective_sample_size=1e12),
        Ranked(item_id="b", relevance=0.5, reward_mean=0.5, effective_sample_size=1e12),
    ]

    assert score_draws(candidates, PosteriorKind.SHRUNK, np.random.default_rng(5), 1)[0] == pytest.approx(
        [0.5, 0.5], abs=1e-5
    )
    lower = [Ranked(item_id="a", relevance=0.1, learned_share=0.3, reward_mean=0.5, effective_sample_size=1e12)]
    assert score_draws(lower, PosteriorKind.SHRUNK, np.random.default_rng(5), 1)[0] == pytest.approx([0.22], abs=1e-5)


NOW = datetime(2026, 3, 1, tzinfo=UTC)
OLD = NOW - timedelta(days=100)


@pytest.mark.parametrize(
    ("uses", "created_at", "expected"),
    [
        (0, OLD, True),
        (4, OLD, True),
        (5, OLD, False),
        (5, NOW - timedelta(days=6, hours=23), True),
        (5, NOW - timedelta(days=7), False),
        (4, None, True),
        (5, None, False),
    ],
)
def test_fewer_than_five_uses_or_younger_than_seven_days(
    uses: int, created_at: datetime | None, *, expected: bool
) -> None:
    """Uses are raw counts; an item stored exactly seven days ago is not younger."""
    assert is_eligible(Arm(uses=uses), created_at, NOW, Exploration()) is expected


def test_the_profile_says_how_few_and_how_young() -> None:
    """With 0 uses and 0 days, no item is eligible."""
    nobody = Exploration(fewer_uses_than=0, younger_than_days=0)

    assert not is_eligible(Arm(), NOW, NOW, nobody)
    assert is_eligible(Arm(uses=50), OLD, NOW, Exploration(younger_than_days=101))


def test_decayed_counts_make_no_item_eligible_again() -> None:
    """A frequently used item stays known after a long time."""
    assert not is_eligible(Arm(successes=0.001, failures=0.001, uses=50), OLD, NOW, Exploration())
