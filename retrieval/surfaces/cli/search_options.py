"""The options of a search, by the names of ``Collection.search``."""

from __future__ import annotations

from typing import Annotated

import typer

from retrieval.surfaces.cli.completion import complete_legs, complete_profile

CONDITION_HELP = (
    "Only items where this holds: priority=High, hours>=24, tags=urgent, kind!=note, or a JSON object. "
    "Repeated: all of them."
)
_QUERY_HELP = (
    'The words to search for: "a phrase", -excluded, begin*. Put -- before a query that starts with a minus. '
    "Left out with --vector, or where the profile needs none."
)

Query = Annotated[str | None, typer.Argument(metavar="QUERY", help=_QUERY_HELP, show_default=False)]
VectorFile = Annotated[
    str | None, typer.Option("--vector", metavar="FILE", help="A vector to search with: a JSON list of numbers.")
]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Hits wanted, 1 to 1000.")]
Where = Annotated[list[str] | None, typer.Option("--where", "-w", metavar="COND", help=CONDITION_HELP)]
Legs = Annotated[
    str | None,
    typer.Option(
        "--legs",
        "-l",
        metavar="LEGS",
        help="The legs to use, such as dense,lexical; else the profile's.",
        autocompletion=complete_legs,
    ),
]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        "-p",
        metavar="PROFILE",
        help="A stored version such as 3, or a JSON file; else the one in use.",
        autocompletion=complete_profile,
    ),
]
Plain = Annotated[bool, typer.Option("--plain", help="Take quotes, minus and star in the query as text.")]
GroupBy = Annotated[
    str | None, typer.Option("--group-by", "-g", metavar="FIELD", help="Only the best hit of each value of the field.")
]
Rewrites = Annotated[
    list[str] | None, typer.Option("--rewrite", metavar="WORDS", help="Another wording. Repeated: several.")
]
Prefer = Annotated[
    list[str] | None,
    typer.Option("--prefer", metavar="COND", help="As --where, but what matches ranks higher; nothing is left out."),
]
Entities = Annotated[
    list[str] | None,
    typer.Option("--entity", metavar="TYPE:ID", help="What the question is about: questions:q1. Repeated: several."),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="What the question is about, by tag. Repeated: several."),
]
AsOf = Annotated[
    str | None, typer.Option("--as-of", metavar="TIME", help="What signals take as now: 2026-03-01T12:00:00+00:00.")
]
About = Annotated[
    str | None,
    typer.Option("--about", metavar="FILE", help="A vector, as --vector, that tells the question's cluster alone."),
]
