"""Draws from what is believed of each candidate."""

from __future__ import annotations

import numpy as np
import pytest

from retrieval.domain.arm import Arm
from retrieval.domain.exploration import Posterior
from retrieval.learning.posterior_draws import reward_draws, score_draws
from retrieval.learning.ranked import Ranked

ROWS = 20_000


def test_the_beta_posterior_is_that_of_the_raw_counts() -> None:
    """Mean (successes + 1) / (uses + 2), whatever was learned or decayed."""
    arm = Arm(successes=0.1, failures=0.1, uses=4, raw_successes=3)
    candidates = [Ranked(item_id="a", arm=arm, logit_mean=-9.0, logit_sd=0.1), Ranked(item_id="b")]

    draws = reward_draws(candidates, Posterior.BETA, ROWS, np.random.default_rng(1))

    assert draws.mean(axis=0) == pytest.approx([4 / 6, 0.5], abs=0.01)
    assert draws[:, 0].var() == pytest.approx(4 * 2 / (36 * 7), abs=0.003)


def test_the_shrunk_posterior_is_logit_normal_where_something_is_learned() -> None:
    """And Beta where nothing is, on the same scale, each in its column."""
    candidates = [
        Ranked(item_id="new"),
        Ranked(item_id="learned", logit_mean=1.0, logit_sd=0.5),
        Ranked(item_id="used", arm=Arm(uses=8, raw_successes=0)),
    ]

    draws = reward_draws(candidates, Posterior.SHRUNK, ROWS, np.random.default_rng(2))
    logits = np.log(draws[:, 1] / (1 - draws[:, 1]))

    assert (logits.mean(), logits.std()) == pytest.approx((1.0, 0.5), abs=0.02)
    assert draws[:, [0, 2]].mean(axis=0) == pytest.approx([0.5, 0.1], abs=0.01)


def test_extreme_logits_stay_rates() -> None:
    """No overflow, no warning, and the order of the means is kept."""
    candidates = [Ranked(item_id=str(mean), logit_mean=mean, logit_sd=0.0) for mean in (-1e6, 0.0, 1e6)]

    draws = reward_draws(candidates, Posterior.SHRUNK, 2, np.random.default_rng(3))

    assert draws.tolist() == [[0.0, 0.5, 1.0]] * 2


def test_counters_that_have_drifted_break_no_search() -> None:
    """More successes than uses: as if all had been successes."""
    drifted = Ranked(item_id="a", arm=Arm(uses=1, raw_successes=3))

    draws = reward_draws([drifted], Posterior.BETA, ROWS, np.random.default_rng(4))

    assert draws.mean() == pytest.approx(4 / 5, abs=0.01)


def test_a_score_is_drawn_with_the_relevance_that_it_has() -> None:
    """.7 × .5 + .3 × the reward; with the share 1, the reward alone."""
    candidates = [
        Ranked(item_id="a", relevance=0.5, learned_share=0.3, logit_mean=0.0, logit_sd=0.0),
        Ranked(item_id="b", relevance=0.5, logit_mean=0.0, logit_sd=0.0),
    ]

    assert score_draws(candidates, Posterior.SHRUNK, 1, np.random.default_rng(5))[0] == pytest.approx([0.5, 0.5])
    lower = [Ranked(item_id="a", relevance=0.1, learned_share=0.3, logit_mean=0.0, logit_sd=0.0)]
    assert score_draws(lower, Posterior.SHRUNK, 1, np.random.default_rng(5))[0] == pytest.approx([0.22])
