"""The exploration benchmark runs, and small versions of its results hold."""

from __future__ import annotations

import json
from pathlib import Path

import arrivals
import bandits
import exploration
import numpy as np
import pytest
import served


def test_the_benchmark_writes_figures_and_a_page(tmp_path: Path) -> None:
    """A row for each policy, half-life, way and kind, and a verdict on each target."""
    assert exploration.main(["--quick", "--out", str(tmp_path)]) == 0

    result = json.loads((tmp_path / "exploration.json").read_text())
    assert {row["policy"] for row in result["stationary"]} >= set(exploration.POLICIES)
    assert {row["half-life"] for row in result["change"]} == {"none", exploration.HALF_LIFE}
    assert {row["policy"] for row in result["arrivals"]} == set(arrivals.WAYS)
    assert all(isinstance(row["met"], bool) for row in result["targets"])
    assert "## Newcomers" in (tmp_path / "exploration.md").read_text()


def test_thompson_sampling_has_less_regret_than_ucb1() -> None:
    """At most .6 of it, and of what chance has, after 2,000 pulls on average over 40 runs."""
    world = bandits.World(horizon=2000)
    thompson, ucb1, chance = (
        bandits.simulate(world, policy, 40, 1).mean()
        for policy in (bandits.shrunk_thompson, bandits.ucb1, bandits.uniform)
    )

    assert thompson < 0.6 * ucb1
    assert thompson < 0.6 * chance
    assert chance == pytest.approx(0.9 * 0.1 * 2000, rel=0.02)


def test_decay_forgets_by_half_in_a_half_life() -> None:
    """The newest event counts in full."""
    counts = bandits.Counts.nothing(1, 2, half_life=10)
    counts.add(np.array([0]), np.array([1.0]))
    for _ in range(10):
        counts.add(np.array([1]), np.array([0.0]))

    assert counts.successes[0, 0] == pytest.approx(0.5)
    assert counts.failures[0, 1] == pytest.approx(sum(0.5 ** (age / 10) for age in range(10)))


def test_the_best_arm_is_another_one_after_each_change() -> None:
    """Four phases; no run keeps its best arm."""
    best = bandits.World(change_every=2500).best_arms(50, np.random.default_rng(1))

    assert best.shape == (4, 50)
    assert (best[1:] != best[:-1]).all()


def test_newcomers_are_found_with_a_slot_and_a_contest_costs_less_than_a_reservation() -> None:
    """In 400 searches, 40 of them a day, with 40 newcomers and topics of some 20 items."""
    about = arrivals.Collection(topics=4, established=40, arriving=40, searches=400, searches_a_day=40)
    ways = ("no slots", "1 slot, shrunk", "1 slot, reserved")
    without, contest, reserved = (arrivals.simulate(about, arrivals.WAYS[name], 4, 1) for name in ways)

    assert contest.found.mean() > without.found.mean()
    assert contest.regret.sum() < reserved.regret.sum()
    assert without.slots.sum() == 0


@pytest.mark.parametrize("slots", [1, 2])
def test_served_slates_agree_with_their_propensities(slots: int) -> None:
    """The benchmark's own test, on 200 slates."""
    rows = served.agreement(200, slots, 5)

    assert rows["p"] > 0.001
    assert rows["greatest error of their sum"] < 1e-9
