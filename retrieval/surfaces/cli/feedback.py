"""``retrieval feedback``: how good a hit was, one by one or from a file."""

from __future__ import annotations

from typing import Annotated

import typer

from retrieval.surfaces.cli.completion import complete_collection
from retrieval.surfaces.cli.options import Json
from retrieval.surfaces.cli.state import state_of

EXAMPLES = (
    "retrieval feedback 01890a5d-ac96-774b-bcce-b302099a8057 T-17 --helpful",
    "retrieval feedback --collection principles p1 --not-helpful --domain db",
    "retrieval feedback --file events.jsonl",
)


def feedback(
    context: typer.Context,
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RETRIEVAL_ID] ITEM_ID",
            help="The search and the item it showed; with --collection, the item alone.",
            show_default=False,
        ),
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(
            "--collection",
            "-c",
            metavar="NAME",
            help="Judge an item of it, without a search.",
            autocompletion=complete_collection,
        ),
    ] = None,
    helpful: Annotated[bool | None, typer.Option("--helpful/--not-helpful", help="Whether it helped.")] = None,
    reward: Annotated[
        float | None, typer.Option("--reward", "-r", metavar="R", help="How good it was, 0 to 1, instead.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="NAME", help="The sort of verdict; else rating.")
    ] = None,
    actor: Annotated[str | None, typer.Option("--actor", metavar="NAME", help="Who judges.")] = None,
    domain: Annotated[
        str | None, typer.Option("--domain", metavar="NAME", help="With --collection: what it was about.")
    ] = None,
    complexity: Annotated[
        float | None, typer.Option("--complexity", metavar="C", help="With --collection: how hard it was, 0 to 1.")
    ] = None,
    note: Annotated[str | None, typer.Option("--note", metavar="TEXT", help="What there is to say about it.")] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="When it was: 2026-03-01T12:00:00+00:00; else now.")
    ] = None,
    weight: Annotated[float | None, typer.Option("--weight", metavar="W", help="How much it counts, 0 to 1.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="TEXT", help="What makes a repetition known; else derived.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="Events, one JSON object a line; - is standard input."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say how good a hit of a search was, or an item in a situation.

    Said twice it counts once; a later verdict of the same actor replaces
    the earlier one.

    In a file each line has item_id, reward or helpful, and retrieval_id or
    collection; lines that cannot be used are named, and the others stored.
    """
    from retrieval.surfaces.cli.feedback_events import judge_file, judge_one

    given = {
        "kind": kind, "actor": actor, "domain": domain, "complexity": complexity, "note": note, "at": at,
        "weight": weight, "key": key, "reward": reward, "helpful": helpful,
    }  # fmt: skip
    record = {name: value for name, value in given.items() if value is not None}
    if file is not None:
        judge_file(state_of(context), file, others=bool(record or names or collection), as_json=as_json)
    else:
        judge_one(state_of(context), names or [], collection, record, as_json=as_json)
