"""``retrieval compare``: the reward that another profile would have earned on recorded searches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from retrieval.domain.wording import several
from retrieval.surfaces.cli.options import CollectionName, command, flag, option
from retrieval.surfaces.cli.output import print_answer, table
from retrieval.surfaces.cli.run import opened

if TYPE_CHECKING:
    from retrieval.services.compare import InterleavedComparison, ProfileComparison


def comparison_lines(comparison: ProfileComparison) -> Iterator[str | Table]:
    """The basis of the comparison, the estimates, their limits, and the verdict."""
    from retrieval.domain.learning.off_policy import CLIP

    names = (comparison.profile, comparison.against)
    unrated = "left out" if comparison.default_reward is None else f"counted as {comparison.default_reward:g}"
    yield (
        f"{names[0]} against {names[1]}: {several(comparison.searches, 'search')} since "
        f"{comparison.since:%Y-%m-%d %H:%M %Z}, {comparison.changed:,} with another answer; "
        f"hits that nobody rated are {unrated}"
    )
    for reason, searches in comparison.left_out.items():
        yield f"left out: {several(searches, 'search')}: {reason}"
    if comparison.estimates:
        yield ""
        rows = (
            (
                f"{each.estimator.value.upper()}{f', weights clipped at {CLIP:g}' if each.is_clipped else ''}",
                each.first.text(),
                each.second.text(),
                each.difference.text("+"),
            )
            for each in comparison.estimates
        )
        yield table(["mean reward of a hit", *names, "difference"], rows, right=(*names, "difference"))
    yield ""
    columns = ["weights", "searches", "rated hits", "effective sample", "mean (expected)", "largest", "without support"]
    weights = (
        (
            name,
            weighing.retrievals,
            weighing.rated,
            f"{weighing.effective_sample_size:,.0f}",
            f"{_figure(weighing.mean_weight)} ({_figure(weighing.expected_weight)})",
            _figure(weighing.max_weight),
            _figure(weighing.unsupported, ".1%"),
        )
        for name, weighing in zip(names, comparison.weighings, strict=True)
    )
    yield table(columns, weights, right=columns[3:])
    yield ""
    yield comparison.verdict.text


def interleaved_lines(comparison: InterleavedComparison) -> Iterator[str | Table]:
    """How often each profile won, and the verdict."""
    preference = comparison.preference
    rated = preference.decided + preference.even
    yield table(
        ["interleaved searches", "with feedback", comparison.profile, comparison.against, "even", "p"],
        [(comparison.searches, rated, preference.first, preference.second, preference.even, preference.p_value)],
    )
    yield ""
    yield comparison.verdict.text


def _figure(value: float, form: str = ".3g") -> str:
    return "–" if math.isnan(value) else format(value, form)


app = typer.Typer()


@command(app, "retrieval compare tickets --profile 3 --against active --since 30d")
def compare(
    *,
    collection: CollectionName,
    profile: Annotated[
        str, option("PROFILE", "A stored version such as 3, 'active', or a JSON file.", show_default=False)
    ],
    against: Annotated[str, option("PROFILE", "The profile to compare it with; named the same way.")] = "active",
    since: Annotated[str, option("WHEN", "Searches from then on: 7d, 24h, 2w, 2026-03-01.")] = "30d",
    default_reward: Annotated[
        float | None, option("R", "The reward of unrated hits; else they do not count.", min=0.0, max=1.0)
    ] = None,
    most: Annotated[int, option("N", "Use only the latest N searches.", min=1)] = 10_000,
    interleaved: Annotated[
        bool, flag("Compare by searches that interleaved two profiles of these names.", "--interleaved")
    ] = False,
) -> None:
    """Compare two profiles on recorded searches and their feedback.

    What each profile would have shown follows from the recorded candidates;
    its reward is estimated from the hits that were shown, and from the
    probabilities of showing them. Too small a sample decides nothing.
    """
    from retrieval.services.compare import compare_interleaved, compare_profiles, named_profile
    from retrieval.surfaces.since import since_of

    start = since_of(since, datetime.now(UTC))

    with opened() as (platform, wait):
        stored = wait(wait(platform.collection(collection, create=False)).refresh())
        in_collection = (platform.database, platform.tenant_id, stored)
        if interleaved:
            trial = wait(compare_interleaved(*in_collection, profile, against, since=start))
            print_answer(trial, interleaved_lines(trial))
            return
        first, second = wait(named_profile(*in_collection, profile)), wait(named_profile(*in_collection, against))
        comparison = wait(
            compare_profiles(*in_collection, first, second, since=start, default_reward=default_reward, most=most)
        )
    print_answer(comparison, comparison_lines(comparison))
