"""``retrieval retrievals`` and ``replay``: recorded searches, and the replay of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.domain.wording import several
from retrieval.surfaces.cli.options import CollectionName, RetrievalId, command, group, option
from retrieval.surfaces.cli.output import print_answer, table
from retrieval.surfaces.cli.run import opened, opened_collection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from retrieval.domain.records.recorded import RecordedRetrieval
    from retrieval.engine.replay import Replay


app = typer.Typer()
retrievals = group(
    app,
    "retrievals",
    "List recorded searches, or show one with its situation and its hits.",
    "retrieval retrievals list tickets",
    "retrieval retrievals show 01a2014b-b29b-73d6-8b76-213aa0d89193",
)


@command(
    retrievals,
    "retrieval retrievals list tickets",
    "retrieval retrievals list tickets --session s-17 -n 5",
    name="list",
)
def list_retrievals(
    *,
    collection: CollectionName,
    limit: Annotated[int, option("N", "Searches, 1 to 1000.", "--limit", "-n")] = 20,
    session: Annotated[str, option("NAME", "Only of that session.")] = "",
    before: Annotated[str | None, option("RETRIEVAL_ID", "Only those before that one: the next page.")] = None,
) -> None:
    """List the recorded searches of a collection, the newest first."""
    with opened_collection(collection) as (target, wait):
        found = wait(target.retrievals(limit=limit, before=before, session=session))
    nothing = "no search is recorded, or none of that session"
    shown = [
        f"{each.retrieval_id}  {each.retrieved_at:%Y-%m-%d %H:%M:%S} UTC  {several(each.hits, 'hit')}  {each.query}"
        for each in found
    ]
    print_answer(found, shown or nothing)


@command(retrievals, "retrieval retrievals show 01a2014b-b29b-73d6-8b76-213aa0d89193")
def show(*, retrieval_id: RetrievalId) -> None:
    """Show a recorded search: its situation, its times, and its hits with their propensities."""
    with opened() as (platform, wait):
        recorded = wait(platform.retrieval(retrieval_id))
    print_answer(recorded, lines(recorded))


def lines(entry: RecordedRetrieval) -> Iterator[str | Table]:
    """The query, its actor, how it was answered, and a row for each shown hit."""
    by = f"by {entry.origin}" if entry.origin else f"by profile {entry.profile_version or 'of the call'}, {entry.path}"
    yield f"{entry.collection}: {entry.query!r}, {entry.retrieved_at:%Y-%m-%d %H:%M:%S} UTC, {by}"
    situation = {"domain": entry.context.domain, "actor": entry.context.actor, "session": entry.context.session}
    parts = [f"{name} {value}" for name, value in situation.items() if value]
    if parts:
        yield ", ".join(parts)
    yield f"{entry.retrieval_time_ms:.1f} ms, policy {entry.policy}, {entry.candidates:,} candidates on record"
    yield from (f"note: {note}" for note in entry.notes)
    if entry.impressions:
        rows = (
            (impression.rank, impression.item_id, impression.score, impression.slot.value, impression.propensity)
            for impression in entry.impressions
        )
        yield table(["rank", "item", "score", "slot", "propensity"], rows)


@command(app, "retrieval replay 01a2014b-b29b-73d6-8b76-213aa0d89193")
def replay(
    *,
    retrieval_id: RetrievalId,
    collection: Annotated[
        str | None, option("NAME", "Only if the search was in this collection.", "--collection", "-c")
    ] = None,
) -> None:
    """Recompute a recorded ranking, and show where and why today's answer differs.

    The ranking follows from the record: candidates, scores, ranks, profile. Then the search runs again, unrecorded.
    """
    with opened() as (platform, wait):
        if collection is not None:
            wait(platform.collection(collection, create=False))
        result = wait(platform.replay(retrieval_id, collection))
    print_answer(result, replay_lines(result))


def replay_lines(result: Replay) -> Iterator[str | Table]:
    """The query, whether its ranking follows from its record, and a row for each item with another rank or score."""
    yield f"{result.collection}: {result.query!r}, {result.retrieved_at:%Y-%m-%d %H:%M:%S} UTC"
    yield "the ranking follows from its record" if result.is_reproduced else "the ranking is not reproduced:"
    yield from (f"  {why}" for why in result.why_not)
    yield from result.changes
    if not result.differences and not result.changes:
        yield "today's answer is the same"
    if result.differences:
        yield table(
            ["item", "rank then", "now", "score then", "now", "why"],
            (
                (each.item_id, each.rank_then, each.rank_now, each.score_then, each.score_now, "; ".join(each.why))
                for each in result.differences
            ),
            right=("rank then", "now", "score then"),
        )
