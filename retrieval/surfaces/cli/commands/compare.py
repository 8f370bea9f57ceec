"""``retrieval compare``: the reward that another profile would have earned on recorded searches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from retrieval.domain.wording import several
from retrieval.surfaces.cli.options import CollectionName, Json, complete_profile
from retrieval.surfaces.cli.output import table
from retrieval.surfaces.cli.run import answer

if TYPE_CHECKING:
    from retrieval.domain.learning.off_policy import Weighing
    from retrieval.platform import Platform
    from retrieval.services.compare import InterleavedComparison, ProfileComparison


def comparison_lines(comparison: ProfileComparison) -> Iterator[str | Table]:
    """The basis of the comparison, the estimates, their limits, and the verdict."""
    first, second = comparison.profile, comparison.against
    unrated = "left out" if comparison.default_reward is None else f"counted as {comparison.default_reward:g}"
    yield (
        f"{first} against {second}: {several(comparison.searches, 'search')} since "
        f"{comparison.since:%Y-%m-%d %H:%M %Z}, {comparison.changed:,} with another answer; "
        f"hits that nobody rated are {unrated}"
    )
    for reason, searches in comparison.left_out.items():
        yield f"left out: {several(searches, 'search')}: {reason}"
    if comparison.estimates:
        yield ""
        yield estimates_table(comparison)
    yield ""
    yield weights_table((first, second), comparison.weighings)
    yield ""
    yield comparison.verdict.text


def interleaved_lines(comparison: InterleavedComparison) -> Iterator[str | Table]:
    """How often each profile won, and the verdict."""
    first, second = comparison.profile, comparison.against
    preference = comparison.preference
    rated = preference.decided + preference.even
    yield table(
        ["interleaved searches", "with feedback", first, second, "even", "p"],
        [(comparison.searches, rated, preference.first, preference.second, preference.even, preference.p_value)],
    )
    yield ""
    yield comparison.verdict.text


def estimates_table(comparison: ProfileComparison) -> Table:
    """A row for each estimator: the mean reward of a hit under either profile, and the difference."""
    from retrieval.domain.learning.off_policy import CLIP

    first, second = comparison.profile, comparison.against
    rows = [
        (
            f"{estimate.estimator.value.upper()}{f', weights clipped at {CLIP:g}' if estimate.is_clipped else ''}",
            estimate.first.text(),
            estimate.second.text(),
            estimate.difference.text("+"),
        )
        for estimate in comparison.estimates
    ]
    columns = ["mean reward of a hit", first, second, "difference"]
    return table(columns, rows, right=columns[1:])


def weights_table(names: tuple[str, str], weighings: tuple[Weighing, Weighing]) -> Table:
    """A row for each profile: the basis of its estimates."""
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


def _figure(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"


EXAMPLES = ("retrieval compare tickets --profile 3 --against active --since 30d",)


ProfileOption = Annotated[
    str,
    typer.Option("--profile", metavar="PROFILE", help="A stored version such as 3, 'active', or a JSON file.",
                 show_default=False, autocompletion=complete_profile),
]  # fmt: skip
Against = Annotated[
    str,
    typer.Option("--against", metavar="PROFILE", help="The profile to compare it with; named the same way.",
                 autocompletion=complete_profile),
]  # fmt: skip
Since = Annotated[str, typer.Option("--since", metavar="WHEN", help="Searches from then on: 7d, 24h, 2w, 2026-03-01.")]
DefaultReward = Annotated[
    float | None,
    typer.Option("--default-reward", metavar="R", min=0.0, max=1.0,
                 help="The reward of unrated hits; else they do not count."),
]  # fmt: skip
Most = Annotated[int, typer.Option("--most", metavar="N", min=1, help="Use only the latest N searches.")]
IsInterleaved = Annotated[
    bool, typer.Option("--interleaved", help="Compare by searches that interleaved two profiles of these names.")
]


def compare(
    context: typer.Context,
    *,
    collection: CollectionName,
    profile: ProfileOption,
    against: Against = "active",
    since: Since = "30d",
    default_reward: DefaultReward = None,
    most: Most = 10_000,
    interleaved: IsInterleaved = False,
    as_json: Json = False,
) -> None:
    """Compare two profiles on recorded searches and their feedback.

    What each profile would have shown follows from the recorded candidates;
    the reward for that is estimated from the hits that were shown, and from
    the probabilities of showing them. Below an effective sample size of
    200, or if the recorded policy could not show what a profile shows,
    nothing is concluded.
    """
    from retrieval.services.compare import ProfileComparison, compare_interleaved, compare_profiles, named_profile
    from retrieval.surfaces.since import since_of

    start = since_of(since, datetime.now(UTC))

    async def work(platform: Platform) -> ProfileComparison | InterleavedComparison:
        stored = await (await platform.collection(collection, create=False)).refresh()
        database, tenant_id = platform.database, platform.tenant_id
        if interleaved:
            return await compare_interleaved(database, tenant_id, stored, profile, against, since=start)
        first = await named_profile(database, tenant_id, stored, profile)
        second = await named_profile(database, tenant_id, stored, against)
        return await compare_profiles(
            database, tenant_id, stored, first, second, since=start, default_reward=default_reward, most=most
        )

    def present(comparison: ProfileComparison | InterleavedComparison) -> Iterator[str | Table]:
        if isinstance(comparison, ProfileComparison):
            return comparison_lines(comparison)
        return interleaved_lines(comparison)

    answer(context, work, present, as_json=as_json)
