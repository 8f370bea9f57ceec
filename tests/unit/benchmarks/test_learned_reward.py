"""A small run of the benchmark of the learned reward: the same functions, few items."""

from __future__ import annotations

import numpy as np
import pytest
from learned_reward import Extent, page, run_once, summary, targets
from reward_simulation import Shape, Spread, arms_of_log, events_of, make_log, make_world

from retrieval.learning.examples import arms_of

SMALL = Extent(seeds=2, logistic_from=10**9, shape=Shape(6, 3, 60, 6))


def test_the_arms_of_a_log_are_those_of_its_events() -> None:
    """The test counts in a table, the benchmark event by event."""
    world = make_world(np.random.default_rng(0), SMALL.shape)
    log = make_log(np.random.default_rng(1), world, 300)
    counted = {item.item_id: item.arms for item in arms_of_log(log, world) if item.arms}
    added = {item.item_id: item.arms for item in arms_of(events_of(log))}

    assert {item: {bucket: arm[:2] for bucket, arm in arms.items()} for item, arms in counted.items()} == {
        item: {bucket: arm[:2] for bucket, arm in arms.items()} for item, arms in added.items()
    }


@pytest.mark.parametrize(("size", "least"), [(0, -1e-9), (2_000, 0.04)])
def test_shrinkage_predicts_better_than_tables_and_is_honest(size: int, least: float) -> None:
    """Log-loss is lower after 2,000 events and equal after none, and the intervals have their coverage."""
    results = [run_once(seed, size, SMALL, Spread()) for seed in range(2)]
    row = summary(size, "shrinkage", [each["shrinkage"] for each in results])

    assert row["gain"] >= least
    assert row["calibration_error"] < 0.09
    assert 0.85 < row["coverage"] < 0.98


def test_without_the_cap_intervals_are_narrower_and_cover_less() -> None:
    """This is the reason for the cap."""
    result = run_once(0, 2_000, SMALL, Spread())

    assert result["without cap"]["coverage"] < result["shrinkage"]["coverage"]
    assert result["without shrinkage"]["log_loss"] > result["shrinkage"]["log_loss"]


def test_a_target_that_is_missed_is_shown_as_missed() -> None:
    """On the page too."""
    row = {"feedbacks": 20_000, "model": "shrinkage", "log_loss": 0.6, "gain": 0.05}
    row |= {"calibration_error": 0.02, "coverage": 0.9, "width": 0.3}
    cost = {"predict_200_shrinkage_ms": 1.0, "predict_200_logistic_ms": 9.0}
    rows = targets([row], cost)
    about = {"seeds": 1, "date": "2026-01-01"}

    assert [each["met"] for each in rows] == [False, True, True, True, False]
    assert "| **no** |" in page({"about": about, "rows": [row], "less_alike": [], "cost": cost, "targets": rows})
