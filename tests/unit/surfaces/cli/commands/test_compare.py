"""Comparisons as people read them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rich.table import Table

from retrieval.adapters.store.learning.off_policy import TargetComparison
from retrieval.domain.learning.off_policy import Estimate, Estimator, Weighing
from retrieval.learning.interleaving import preference
from retrieval.learning.off_policy import by_preference, judge
from retrieval.services.compare import InterleavedComparison, ProfileComparison
from retrieval.surfaces.cli.commands.compare import comparison_lines, interleaved_lines
from retrieval.surfaces.cli.output import show

SINCE, NAMES = datetime(2026, 3, 1, tzinfo=UTC), ("profile 3", "profile 2")
WEIGHING = Weighing(
    retrievals=900,
    impressions=9000,
    rated=1200,
    effective_sample_size=640.4,
    mean_weight=9.9,
    expected_weight=10.0,
    weight_error=0.1,
    max_weight=12.5,
    clipped=0,
)
DIFFERENCE = Estimate(value=0.05, standard_error=0.01)
SNIPS = TargetComparison(
    estimator=Estimator.SNIPS,
    is_clipped=True,
    first=Estimate(value=0.45, standard_error=0.02),
    second=Estimate(value=0.4, standard_error=math.nan),
    difference=DIFFERENCE,
)
FOUND = ProfileComparison(
    collection="docs",
    profile=NAMES[0],
    against=NAMES[1],
    since=SINCE,
    default_reward=None,
    searches=900,
    left_out={"no candidates were recorded with it": 1},
    changed=300,
    weighings=(WEIGHING, WEIGHING),
    estimates=(SNIPS,),
    verdict=judge(NAMES, (WEIGHING, WEIGHING), DIFFERENCE),
)


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal has 140 columns."""
    monkeypatch.setenv("COLUMNS", "140")


def printed(parts: Iterator[str | Table], capsys: pytest.CaptureFixture[str]) -> str:
    """The output, with single blanks."""
    show(parts)
    return "\n".join(" ".join(line.split()) for line in capsys.readouterr().out.splitlines())


def test_a_comparison_says_what_it_rests_on(capsys: pytest.CaptureFixture[str]) -> None:
    """The searches that count and those left out, estimates with intervals, weights, and the verdict last."""
    output = printed(comparison_lines(FOUND), capsys)
    assert output.startswith(
        "profile 3 against profile 2: 900 searches since 2026-03-01 00:00 UTC, 300 with another answer; "
        "hits that nobody rated are left out\nleft out: 1 search: no candidates were recorded with it\n"
    )
    assert "SNIPS, weights clipped at 50 0.4500 (0.4108 to 0.4892) 0.4000 +0.0500 (+0.0304 to +0.0696)" in output
    assert "profile 3 900 1,200 640 9.9 (10) 12.5 1.0%" in output
    assert output.splitlines()[-1].startswith("profile 3 is better than profile 2: +0.0500")


def test_without_traffic_the_figures_are_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    """Figures that need traffic are dashes; a default reward is named."""
    nothing = replace(
        WEIGHING, retrievals=0, rated=0, mean_weight=math.nan, expected_weight=math.nan, max_weight=math.nan
    )
    verdict = judge(NAMES, (nothing, nothing), DIFFERENCE)
    found = replace(FOUND, estimates=(), weighings=(nothing, nothing), default_reward=0.25, verdict=verdict)
    output = printed(comparison_lines(found), capsys)
    assert "hits that nobody rated are counted as 0.25" in output
    assert "profile 3 0 0 640 – (–) – –" in output
    assert "no conclusion: profile 3: no recorded search can be ranked again" in output


def test_interleaved_searches_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """The number of wins of each, and the verdict."""
    won = preference([(1.0, 0.0)] * 20 + [(0.0, 1.0)] * 4 + [(1.0, 1.0)])
    comparison = InterleavedComparison(
        collection="docs",
        profile=NAMES[0],
        against=NAMES[1],
        since=SINCE,
        searches=31,
        preference=won,
        verdict=by_preference(NAMES, won),
    )
    output = printed(interleaved_lines(comparison), capsys)
    assert "31 25 20 4 1 0.0015" in output
    assert "profile 3 is better than profile 2: 20 searches against 4, 1 even, p = 0.0015" in output
