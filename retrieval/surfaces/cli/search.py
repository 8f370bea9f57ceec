"""``retrieval search``: ask a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli.completion import complete_legs
from retrieval.surfaces.cli.options import CollectionName, Json, legs_of
from retrieval.surfaces.cli.state import state_of

if TYPE_CHECKING:
    from retrieval.domain.hit import SearchResult
    from retrieval.platform import Platform

CONDITION_HELP = (
    "Only items where this holds: priority=High, hours>=24, tags=urgent, kind!=note, or a JSON object. "
    "Repeated: all of them."
)

QUERY_HELP = 'The words to search for: "a phrase", -excluded, begin*. Put -- before a query that starts with a minus.'

EXAMPLES = (
    'retrieval search tickets "connection timeout" --where priority=High -n 5',
    "retrieval search tickets timeout --where 'hours>=24' --explain",
    "retrieval search tickets '\"read timeout\" -redis connect*'",
    "retrieval search tickets timeout --group-by project",
)


def search(
    context: typer.Context,
    *,
    collection: CollectionName,
    query: Annotated[str, typer.Argument(metavar="QUERY", help=QUERY_HELP, show_default=False)],
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Hits wanted, 1 to 1000.")] = 10,
    where: Annotated[list[str] | None, typer.Option("--where", "-w", metavar="COND", help=CONDITION_HELP)] = None,
    legs: Annotated[
        str | None,
        typer.Option(
            "--legs",
            "-l",
            metavar="LEGS",
            help="The legs to use, such as dense,lexical; else the profile's.",
            autocompletion=complete_legs,
        ),
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Take quotes, minus and star in the query as text.")] = False,
    group_by: Annotated[
        str | None,
        typer.Option("--group-by", "-g", metavar="FIELD", help="Only the best hit of each value of the field."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", "-x", help="Show what each score is made of.")] = False,
    as_json: Json = False,
) -> None:
    """Search a collection by meaning and by words."""
    from retrieval.surfaces.cli.hits import print_result
    from retrieval.surfaces.cli.output import console, print_json
    from retrieval.surfaces.cli.run import run
    from retrieval.surfaces.cli.where import where_of

    chosen, conditions = legs_of(legs), where_of(where or ())

    async def ask(platform: Platform) -> SearchResult:
        found = await platform.collection(collection, create=False)
        return await found.search(
            query, where=conditions, limit=limit, legs=chosen, syntax=not plain, group_by=group_by
        )

    result = run(state_of(context), ask)
    if as_json:
        print_json(result.as_dict())
    else:
        print_result(console(), result, explain=explain)
