"""``retrieval retrievals`` and ``replay``: recorded searches, and the replay of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.domain.wording import several
from retrieval.surfaces.cli.options import CollectionName, Json, RetrievalId, collection_option, examples
from retrieval.surfaces.cli.output import table
from retrieval.surfaces.cli.run import answer, of_collection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from retrieval.domain.records.recorded import RecordedRetrieval, RetrievalSummary
    from retrieval.engine.replay import Replay
    from retrieval.platform import Platform


LIST = ("retrieval retrievals list tickets", "retrieval retrievals list tickets --session s-17 -n 5")
SHOW = ("retrieval retrievals show 01a2014b-b29b-73d6-8b76-213aa0d89193",)

app = typer.Typer(rich_markup_mode="rich", no_args_is_help=True, epilog=examples(LIST[0], *SHOW))


@app.callback()
def retrievals() -> None:
    """List recorded searches, or show one with its situation and its hits."""


@app.command("list", epilog=examples(*LIST))
def list_retrievals(
    context: typer.Context,
    *,
    collection: CollectionName,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Searches, 1 to 1000.")] = 20,
    session: Annotated[str, typer.Option(metavar="NAME", help="Only of that session.")] = "",
    before: Annotated[
        str | None, typer.Option(metavar="RETRIEVAL_ID", help="Only those before that one: the next page.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the recorded searches of a collection, the newest first."""
    answer(
        context,
        of_collection(collection, lambda target: target.retrievals(limit=limit, before=before, session=session)),
        lambda summaries: list(map(summary_line, summaries)) or "no search is recorded, or none of that session",
        as_json=as_json,
    )


@app.command(epilog=examples(*SHOW))
def show(
    context: typer.Context,
    *,
    retrieval_id: RetrievalId,
    as_json: Json = False,
) -> None:
    """Show a recorded search: its situation, its times, and its hits with their propensities."""
    answer(context, lambda platform: platform.retrieval(retrieval_id), lines, as_json=as_json)


def summary_line(summary: RetrievalSummary) -> str:
    """Identifier, time, hits and query on one line, so that the identifier can be copied."""
    hits = several(summary.hits, "hit")
    return f"{summary.retrieval_id}  {summary.retrieved_at:%Y-%m-%d %H:%M:%S} UTC  {hits}  {summary.query}"


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


REPLAY_EXAMPLES = ("retrieval replay 01a2014b-b29b-73d6-8b76-213aa0d89193",)


def replay(
    context: typer.Context,
    *,
    retrieval_id: RetrievalId,
    collection: Annotated[str | None, collection_option("Only if the search was in this collection.")] = None,
    as_json: Json = False,
) -> None:
    """Recompute a recorded ranking, and show where and why today's answer differs.

    The ranking follows from the record: candidates, scores, ranks, profile. Then the search runs again, unrecorded.
    """

    async def work(platform: Platform) -> Replay:
        if collection is not None:
            await platform.collection(collection, create=False)
        return await platform.replay(retrieval_id, collection)

    answer(context, work, replay_lines, as_json=as_json)


def replay_lines(result: Replay) -> Iterator[str | Table]:
    """The query, whether its ranking follows from its record, and the changes since."""
    yield f"{result.collection}: {result.query!r}, {result.retrieved_at:%Y-%m-%d %H:%M:%S} UTC"
    yield "the ranking follows from its record" if result.is_reproduced else "the ranking is not reproduced:"
    yield from (f"  {why}" for why in result.why_not)
    yield from result.changes
    if not result.differences and not result.changes:
        yield "today's answer is the same"
    if result.differences:
        yield differences_table(result)


def differences_table(result: Replay) -> Table:
    """A row for each item with another rank or score today."""
    return table(
        ["item", "rank then", "now", "score then", "now", "why"],
        (
            (
                difference.item_id,
                difference.rank_then,
                difference.rank_now,
                difference.score_then,
                difference.score_now,
                "; ".join(difference.why),
            )
            for difference in result.differences
        ),
        right=("rank then", "now", "score then"),
    )
