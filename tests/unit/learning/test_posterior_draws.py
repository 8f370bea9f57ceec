"""Draws from what is believed of each candidate."""

from __future__ import annotations

import numpy as np
import pytest

from retrieval.domain.learning.arm import Arm
from retrieval.domain.search.profile_parts import PosteriorKind
from retrieval.learning.propensity import reward_draws, score_draws
from retrieval.learning.ranked import Ranked

ROWS = 20_000


def test_the_beta_posterior_is_that_of_the_raw_counts() -> None:
    """Mean (successes + 1) / (uses + 2), whatever was learned or decayed."""
    arm = Arm(successes=0.1, failures=0.1, uses=4, raw_successes=3)
    candidates = [Ranked(item_id="a", arm=arm, reward_mean=0.01, effective_sample_size=99), Ranked(item_id="b")]

    draws = reward_draws(candidates, PosteriorKind.BETA, ROWS, np.random.default_rng(1))

    assert draws.mean(axis=0) == pytest.approx([4 / 6, 0.5], abs=0.01)
    assert draws[:, 0].var() == pytest.approx(4 * 2 / (36 * 7), abs=0.003)


def test_the_shrunk_posterior_is_that_of_the_learned_reward() -> None:
    """And that of the raw counts where nothing is learned, each in its column."""
    candidates = [
        Ranked(item_id="new"),
        Ranked(item_id="learned", reward_mean=0.7, effective_sample_size=20),
        Ranked(item_id="used", arm=Arm(uses=8, raw_successes=0)),
    ]

    draws = reward_draws(candidates, PosteriorKind.SHRUNK, ROWS, np.random.default_rng(2))

    assert draws.mean(axis=0) == pytest.approx([0.5, 0.7, 0.1], abs=0.01)
    assert draws[:, 1].std() == pytest.approx((0.7 * 0.3 / 21) ** 0.5, rel=0.03)


def test_extreme_beliefs_stay_rates() -> None:
    """No error, no warning, and the order of the means is kept."""
    candidates = [Ranked(item_id=str(mean), reward_mean=mean, effective_sample_size=1e12) for mean in (0.0, 0.5, 1.0)]

    draws = reward_draws(candidates, PosteriorKind.SHRUNK, 2, np.random.default_rng(3))

    assert draws == pytest.approx(np.array([[0.0, 0.5, 1.0]] * 2), abs=1e-5)
    assert reward_draws([], PosteriorKind.SHRUNK, 2, np.random.default_rng(3)).shape == (2, 0)


def test_counters_that_have_drifted_break_no_search() -> None:
    """More successes than uses: as if all had been successes."""
    drifted = Ranked(item_id="a", arm=Arm(uses=1, raw_successes=3))

    draws = reward_draws([drifted], PosteriorKind.BETA, ROWS, np.random.default_rng(4))

    assert draws.mean() == pytest.approx(4 / 5, abs=0.01)


def test_a_score_is_drawn_with_the_relevance_that_it_has() -> None:
    """.7 × .5 + .3 × the reward; with the share 1, the reward alone."""
    candidates = [
        Ranked(item_id="a", relevance=0.5, learned_share=0.3, reward_mean=0.5, effective_sample_size=1e12),
        Ranked(item_id="b", relevance=0.5, reward_mean=0.5, effective_sample_size=1e12),
    ]

    assert score_draws(candidates, PosteriorKind.SHRUNK, 1, np.random.default_rng(5))[0] == pytest.approx(
        [0.5, 0.5], abs=1e-5
    )
    lower = [Ranked(item_id="a", relevance=0.1, learned_share=0.3, reward_mean=0.5, effective_sample_size=1e12)]
    assert score_draws(lower, PosteriorKind.SHRUNK, 1, np.random.default_rng(5))[0] == pytest.approx([0.22], abs=1e-5)
