"""``retrieval retrievals`` and ``replay``: the searches as they were recorded, and one looked at again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli.completion import complete_collection
from retrieval.surfaces.cli.options import CollectionName, Json, examples, state_of

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
    """List what was searched for, or show one search: in what situation, and what it showed."""


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
    from retrieval.surfaces.cli.output import console, plain, print_json
    from retrieval.surfaces.cli.run import run

    async def work(platform: Platform) -> list[RetrievalSummary]:
        found = await platform.collection(collection, create=False)
        return await found.retrievals(limit=limit, before=before, session=session)

    found = run(state_of(context), work)
    if as_json:
        print_json([one.as_dict() for one in found])
    elif found:
        for one in found:
            console().print(plain(summary_line(one)), soft_wrap=True)
    else:
        console().print("no search is recorded, or none of that session", soft_wrap=True)


@app.command(epilog=examples(*SHOW))
def show(
    context: typer.Context,
    *,
    retrieval_id: Annotated[
        str, typer.Argument(metavar="RETRIEVAL_ID", help="As the search's result has it.", show_default=False)
    ],
    as_json: Json = False,
) -> None:
    """Show a recorded search: its situation, its times, and its hits with their propensities."""
    from retrieval.surfaces.cli.output import console, plain, print_json
    from retrieval.surfaces.cli.run import run

    async def work(platform: Platform) -> RecordedRetrieval:
        return await platform.retrieval(retrieval_id)

    found = run(state_of(context), work)
    if as_json:
        print_json(found.as_dict())
        return
    for line in lines(found):
        console().print(plain(line), soft_wrap=True)
    if found.impressions:
        console().print(impressions_table(found))


def summary_line(one: RetrievalSummary) -> str:
    """Identifier, moment, hits, query: on one line, so that the identifier can be copied."""
    hits = f"{one.hits} {'hit' if one.hits == 1 else 'hits'}"
    return f"{one.retrieval_id}  {one.retrieved_at:%Y-%m-%d %H:%M:%S} UTC  {hits}  {one.query}"


def lines(found: RecordedRetrieval) -> Iterator[str]:
    """What was asked, by whom, and how it was answered."""
    by = f"by {found.origin}" if found.origin else f"by profile {found.profile_version or 'of the call'}, {found.path}"
    yield f"{found.collection}: {found.query!r}, {found.retrieved_at:%Y-%m-%d %H:%M:%S} UTC, {by}"
    situation = {"domain": found.context.domain, "actor": found.context.actor, "session": found.context.session}
    said = [f"{name} {value}" for name, value in situation.items() if value]
    if said:
        yield ", ".join(said)
    yield f"{found.retrieval_time_ms:.1f} ms, policy {found.policy}, {found.candidates:,} candidates on record"
    yield from (f"note: {note}" for note in found.notes)


def impressions_table(found: RecordedRetrieval) -> Table:
    """A row a hit that was shown."""
    from retrieval.surfaces.cli.output import table

    rows = ((one.rank, one.item_id, one.score, one.slot.value, one.propensity) for one in found.impressions)
    return table(["rank", "item", "score", "slot", "propensity"], rows)


REPLAY_EXAMPLES = ("retrieval replay 01a2014b-b29b-73d6-8b76-213aa0d89193",)


def replay(
    context: typer.Context,
    *,
    retrieval_id: Annotated[
        str,
        typer.Argument(metavar="RETRIEVAL_ID", help="As the search's result has it.", show_default=False),
    ],
    collection: Annotated[
        str | None,
        typer.Option(
            "--collection",
            "-c",
            metavar="NAME",
            help="Only if the search was in this collection.",
            autocompletion=complete_collection,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute a recorded ranking, and say where and why today's answer differs.

    The ranking follows from what was recorded: candidates, scores, ranks,
    profile. Then the search is asked again, without being recorded.
    """
    from retrieval.surfaces.cli.output import console, plain, print_json
    from retrieval.surfaces.cli.run import run

    async def work(platform: Platform) -> Replay:
        if collection is not None:
            await platform.collection(collection, create=False)
        return await platform.replay(retrieval_id, collection)

    found = run(state_of(context), work)
    if as_json:
        print_json(found.as_dict())
        return
    for line in replay_lines(found):
        console().print(plain(line), soft_wrap=True)
    if found.differences:
        console().print(differences_table(found))


def replay_lines(found: Replay) -> Iterator[str]:
    """What was asked, whether its ranking follows from its record, and what has changed."""
    yield f"{found.collection}: {found.query!r}, {found.retrieved_at:%Y-%m-%d %H:%M:%S} UTC"
    yield "the ranking follows from its record" if found.is_reproduced else "the ranking is not reproduced:"
    yield from (f"  {why}" for why in found.why_not)
    yield from found.changes
    if not found.differences and not found.changes:
        yield "today's answer is the same"


def differences_table(found: Replay) -> Table:
    """A row for each item that stands elsewhere today, or with another score."""
    from retrieval.surfaces.cli.output import table

    return table(
        ["item", "rank then", "now", "score then", "now", "why"],
        (
            (one.item_id, one.rank_then, one.rank_now, one.score_then, one.score_now, "; ".join(one.why))
            for one in found.differences
        ),
        right=("rank then", "now", "score then"),
    )
