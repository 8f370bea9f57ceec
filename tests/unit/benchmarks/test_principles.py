"""The benchmark of principles runs, and a small version of its results holds."""

from __future__ import annotations

import json
from pathlib import Path

import principle_contest as contest
import principle_corpus
import principle_world as world
import principles


def test_the_benchmark_writes_figures_and_a_page(tmp_path: Path) -> None:
    """A row for each policy, and a verdict on each target."""
    assert principles.main(["--quick", "--out", str(tmp_path)]) == 0

    result = json.loads((tmp_path / "principles.json").read_text())
    assert [row["policy"] for row in result["policies"]] == [*world.POLICIES]
    assert all(isinstance(row["met"], bool) for row in result["targets"])
    assert "## New principles" in (tmp_path / "principles.md").read_text()


def test_new_ones_are_found_where_they_are_explored_and_not_by_the_former_policy() -> None:
    """Small worlds, three seeds: the former one shows none; exploration shows most and lets good ones rise."""
    about = world.About(established=20, arriving=10, sessions=160)
    policies = [world.POLICIES[name] for name in (world.OLD, world.OURS)]
    old, ours = ([world.simulate(about, *policy, seed) for seed in range(3)] for policy in policies)

    assert sum(len(run.shown) for run in old) == 0
    assert sum(len(run.rated) for run in ours) > 0.9 * 3 * about.arriving
    assert sum(len(run.risen) for run in ours) > 3


def test_the_same_seed_gives_every_policy_the_same_world() -> None:
    """The same seed also repeats a run exactly."""
    about = world.About(established=5, arriving=5, sessions=20)
    first, second = (world.simulate(about, *world.POLICIES[name], 4) for name in (world.OLD, world.NO_EXPLORATION))
    again = world.simulate(about, *world.POLICIES[world.OLD], 4)

    assert first.state is not None
    assert second.state is not None
    assert first.state.helps == second.state.helps
    assert first.helpfulness == again.helpfulness


def test_every_situation_names_principles_that_there_are() -> None:
    """More than sixty principles; each situation has one that helps, and its tags are some principle's."""
    lessons = principle_corpus.lessons()
    keys, tags = {lesson.key for lesson in lessons}, {tag for lesson in lessons for tag in lesson.tags}

    assert len(keys) == len(lessons) > 60
    for situation in principle_corpus.situations():
        assert situation.helps
        assert keys.issuperset(situation.helps), situation.words
        assert tags.issuperset(situation.tags), situation.words


def test_a_contest_ends_with_the_better_one_on_top() -> None:
    """If it is far better, by the product's policy and by plain Thompson sampling: the same each time."""
    easy = contest.Contest(rivals=2, better=0.95, others=0.05, places=1, uses=200)
    for policy, status in contest.POLICIES.values():
        outcome = contest.hold(easy, policy, status, 3)
        assert outcome.uses is not None
        assert outcome.uses < 50
        assert outcome == contest.hold(easy, policy, status, 3)
