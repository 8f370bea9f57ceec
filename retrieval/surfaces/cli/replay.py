"""``retrieval replay``: a recorded search, looked at again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli.completion import complete_collection
from retrieval.surfaces.cli.options import Json
from retrieval.surfaces.cli.state import state_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from retrieval.engine.replay import Replay
    from retrieval.platform import Platform

EXAMPLES = ("retrieval replay 01a2014b-b29b-73d6-8b76-213aa0d89193",)


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
        return await platform.replay(retrieval_id, collection)

    found = run(state_of(context), work)
    if as_json:
        print_json(found.as_dict())
        return
    for line in lines(found):
        console().print(plain(line), soft_wrap=True)
    if found.differences:
        console().print(differences_table(found))


def lines(found: Replay) -> Iterator[str]:
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
