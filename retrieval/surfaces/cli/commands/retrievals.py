"""``retrieval retrievals`` and ``replay``: recorded searches, and the replay of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

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
    session: Annotated[str, typer.Option("--session", metavar="NAME", help="Of that session alone.")] = "",
    before: Annotated[
        str | None, typer.Option("--before", metavar="RETRIEVAL_ID", help="Those before that one: the next page.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the recorded searches of a collection, the newest first."""
    answer(
        context,
        of_collection(collection, lambda found: found.retrievals(limit=limit, before=before, session=session)),
        lambda found: list(map(summary_line, found)) or "no search is recorded, or none of that session",
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
    """Identifier, moment, hits, query: on one line, so that the identifier can be copied."""
    hits = f"{summary.hits} {'hit' if summary.hits == 1 else 'hits'}"
    return f"{summary.retrieval_id}  {summary.retrieved_at:%Y-%m-%d %H:%M:%S} UTC  {hits}  {summary.query}"


def lines(found: RecordedRetrieval) -> Iterator[str | Table]:
    """The question, who asked it, how it was answered, and a row for each hit that was shown."""
    by = f"by {found.origin}" if found.origin else f"by profile {found.profile_version or 'of the call'}, {found.path}"
    yield f"{found.collection}: {found.query!r}, {found.retrieved_at:%Y-%m-%d %H:%M:%S} UTC, {by}"
    situation = {"domain": found.context.domain, "actor": found.context.actor, "session": found.context.session}
    said = [f"{name} {value}" for name, value in situation.items() if value]
    if said:
        yield ", ".join(said)
    yield f"{found.retrieval_time_ms:.1f} ms, policy {found.policy}, {found.candidates:,} candidates on record"
    yield from (f"note: {note}" for note in found.notes)
    if found.impressions:
        rows = (
            (impression.rank, impression.item_id, impression.score, impression.slot.value, impression.propensity)
            for impression in found.impressions
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
    """Recompute a recorded ranking, and say where and why today's answer differs.

    The ranking follows from the record: candidates, scores, ranks, profile. Then the search runs again, unrecorded.
    """

    async def work(platform: Platform) -> Replay:
        if collection is not None:
            await platform.collection(collection, create=False)
        return await platform.replay(retrieval_id, collection)

    answer(context, work, replay_lines, as_json=as_json)


def replay_lines(found: Replay) -> Iterator[str | Table]:
    """The question, whether its ranking follows from its record, and what has changed."""
    yield f"{found.collection}: {found.query!r}, {found.retrieved_at:%Y-%m-%d %H:%M:%S} UTC"
    yield "the ranking follows from its record" if found.is_reproduced else "the ranking is not reproduced:"
    yield from (f"  {why}" for why in found.why_not)
    yield from found.changes
    if not found.differences and not found.changes:
        yield "today's answer is the same"
    if found.differences:
        yield differences_table(found)


def differences_table(found: Replay) -> Table:
    """A row for each item that stands elsewhere today, or with another score."""
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
            for difference in found.differences
        ),
        right=("rank then", "now", "score then"),
    )
