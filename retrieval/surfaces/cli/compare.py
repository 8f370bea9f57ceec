"""``retrieval compare``: what another profile would have earned, before anybody switches to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli.completion import complete_profile
from retrieval.surfaces.cli.options import CollectionName, Json
from retrieval.surfaces.cli.state import state_of

if TYPE_CHECKING:
    from retrieval.jobs.compare_interleaved import InterleavedComparison
    from retrieval.platform import Platform

EXAMPLES = ("retrieval compare tickets --profile 3 --against active --since 30d",)


def compare(
    context: typer.Context,
    *,
    collection: CollectionName,
    profile: Annotated[
        str,
        typer.Option(
            "--profile",
            metavar="PROFILE",
            help="A stored version such as 3, 'active', or a JSON file.",
            show_default=False,
            autocompletion=complete_profile,
        ),
    ],
    against: Annotated[
        str,
        typer.Option(
            "--against",
            metavar="PROFILE",
            help="What it is compared with; named the same way.",
            autocompletion=complete_profile,
        ),
    ] = "active",
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="Searches from then on: 7d, 24h, 2w, 2026-03-01.")
    ] = "30d",
    default_reward: Annotated[
        float | None,
        typer.Option(
            "--default-reward",
            metavar="R",
            min=0.0,
            max=1.0,
            help="What a hit earned that nobody rated; else such hits tell nothing.",
        ),
    ] = None,
    most: Annotated[
        int, typer.Option("--most", metavar="N", min=1, help="Look at the latest so many searches.")
    ] = 10_000,
    interleaved: Annotated[
        bool,
        typer.Option("--interleaved", help="Count who won the searches that mixed the two; the names are theirs."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare two profiles on recorded searches and their feedback.

    What each profile would have shown is worked out from the recorded
    candidates; what that would have earned is estimated from what was shown
    and with what probability. Below an effective sample size of 200, or where
    the recorded policy could not show what a profile shows, nothing is
    concluded.
    """
    from datetime import UTC, datetime

    from retrieval.jobs.compare import ProfileComparison, compare_profiles
    from retrieval.jobs.compare_interleaved import compare_interleaved
    from retrieval.jobs.named_profile import named_profile
    from retrieval.surfaces.cli.comparing import print_comparison, print_interleaved
    from retrieval.surfaces.cli.output import console, print_json
    from retrieval.surfaces.cli.run import run
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

    found = run(state_of(context), work)
    if as_json:
        print_json(found.as_dict())
    elif isinstance(found, ProfileComparison):
        print_comparison(console(), found)
    else:
        print_interleaved(console(), found)
