"""Comparisons of profiles for people to read."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from retrieval.domain.estimate import CLIP, Estimate
from retrieval.domain.weighing import Weighing
from retrieval.jobs.compare import ProfileComparison
from retrieval.jobs.compare_interleaved import InterleavedComparison
from retrieval.surfaces.cli.output import count, plain, table


def print_comparison(out: Console, found: ProfileComparison) -> None:
    """Print what was looked at, the estimates, how far they carry, and the verdict."""
    first, second = found.names
    unrated = "left out" if found.default_reward is None else f"counted as {found.default_reward:g}"
    out.print(
        plain(
            f"{first} against {second}: {count(found.searches, 'search')} since {found.since:%Y-%m-%d %H:%M %Z}, "
            f"{found.changed:,} with another answer; hits that nobody rated are {unrated}"
        ),
        soft_wrap=True,
    )
    for reason, searches in found.left_out.items():
        out.print(plain(f"left out: {count(searches, 'search')}: {reason}"), soft_wrap=True)
    if found.estimates:
        out.print()
        out.print(estimates_table(found))
    out.print()
    out.print(weights_table(found.names, found.weighings))
    out.print()
    out.print(plain(found.verdict.text), soft_wrap=True)


def print_interleaved(out: Console, found: InterleavedComparison) -> None:
    """Print who won how often, and the verdict."""
    first, second = found.names
    preference = found.preference
    out.print(
        table(
            ["interleaved searches", "with feedback", first, second, "even", "p"],
            [
                (
                    found.searches,
                    preference.decided + preference.even,
                    preference.first,
                    preference.second,
                    preference.even,
                    preference.p_value,
                )
            ],
        )
    )
    out.print()
    out.print(plain(found.verdict.text), soft_wrap=True)


def estimates_table(found: ProfileComparison) -> Table:
    """A row an estimator: the mean reward of a hit under either profile, and the difference."""
    first, second = found.names
    rows = [
        (
            f"{one.estimator.value.upper()}{f', weights clipped at {CLIP:g}' if one.is_clipped else ''}",
            _text(one.first),
            _text(one.second),
            _text(one.difference, "+"),
        )
        for one in found.estimates
    ]
    columns = ["mean reward of a hit", first, second, "difference"]
    return table(columns, rows, right=columns[1:])


def weights_table(names: tuple[str, str], weighings: tuple[Weighing, Weighing]) -> Table:
    """A row a profile: what its estimates rest on."""
    columns = [
        "weights", "searches", "rated hits", "effective sample", "mean (expected)", "largest", "without support",
    ]  # fmt: skip
    rows = [
        (
            name,
            weighing.retrievals,
            weighing.rated,
            f"{weighing.effective_sample_size:,.0f}",
            f"{_figure(weighing.mean_weight)} ({_figure(weighing.expected_weight)})",
            _figure(weighing.max_weight),
            "–" if math.isnan(weighing.unsupported) else f"{weighing.unsupported:.1%}",
        )
        for name, weighing in zip(names, weighings, strict=True)
    ]
    return table(columns, rows, right=columns[3:])


def _text(estimate: Estimate, sign: str = "") -> str:
    """The value with its interval; a dash where there is none."""
    if math.isnan(estimate.value):
        return "–"
    if math.isnan(estimate.standard_error):
        return f"{estimate.value:{sign}.4f}"
    return f"{estimate.value:{sign}.4f} ({estimate.low:{sign}.4f} to {estimate.high:{sign}.4f})"


def _figure(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"
