"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from retrieval.surfaces.cli.completion import complete_collection

Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
JsonLines = Annotated[
    bool, typer.Option("--json", help="Print JSON, an object a line as it comes, and nothing else, on standard output.")
]
CollectionName = Annotated[
    str,
    typer.Argument(
        metavar="COLLECTION",
        help="The collection's name.",
        show_default=False,
        autocompletion=complete_collection,
    ),
]
Queries = Annotated[
    Path,
    typer.Option(
        "--queries",
        metavar="FILE",
        help="Queries, one JSON object a line: _id, text, metadata.",
        show_default=False,
    ),
]
Judgements = Annotated[
    Path,
    typer.Option("--qrels", metavar="FILE", help="Judgements: query id, item id, score, by tabs.", show_default=False),
]
WhereFromOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where-from",
        metavar="EXPR",
        help="Narrow each query by its own metadata: metadata.as_of>=occurred_at. May be repeated.",
    ),
]
DropSelfOption = Annotated[
    str | None,
    typer.Option("--drop-self", metavar="NAME", help="Leave out the item named in the query's metadata.NAME."),
]


def legs_of(text: str | None) -> tuple[str, ...] | None:
    """Leg names from ``dense,lexical``, each once; None when none were asked for.

    Raises ``InvalidProfileError`` for a leg that does not exist and ``InvalidRequestError`` for none at all.
    """
    if text is None:
        return None
    from retrieval.domain.errors import InvalidRequestError
    from retrieval.domain.profile import leg_name

    names = dict.fromkeys(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise InvalidRequestError("--legs names no leg; write for example --legs dense,lexical")
    return tuple(leg_name(name).value for name in names)


def columns_of(pairs: Sequence[str]) -> dict[str, str]:
    """Columns by the field or attribute they become, from ``_id=ticket_id`` and the like.

    Raises ``InvalidRequestError`` for a pair that is not one, or a field that is mapped twice.
    """
    from retrieval.domain.errors import InvalidRequestError

    columns: dict[str, str] = {}
    for pair in pairs:
        field, equals, column = (part.strip() for part in pair.partition("="))
        if not (field and equals and column):
            raise InvalidRequestError(f"cannot read --map {pair!r}: write FIELD=NAME, such as _id=ticket_id")
        if field in columns:
            raise InvalidRequestError(f"--map gives {field!r} twice; give it one column")
        columns[field] = column
    return columns


def filterable_of(pairs: Sequence[str]) -> dict[str, str]:
    """Types by attribute, from ``priority:text`` and the like.

    Raises ``InvalidRequestError`` for a pair that is not one, or an attribute that is given twice.
    """
    from retrieval.domain.errors import InvalidRequestError

    types: dict[str, str] = {}
    for pair in pairs:
        name, _, kind = (part.strip() for part in pair.rpartition(":"))
        if not (name and kind):
            raise InvalidRequestError(f"cannot read {pair!r}: write ATTRIBUTE:TYPE, such as priority:text")
        if name in types:
            raise InvalidRequestError(f"attribute {name!r} is given twice; give it one type")
        types[name] = kind
    return types


def examples(*lines: str) -> str:
    """The end of a help text: each line stands on a line of its own, and is no markup."""
    shown = [line.replace("[", "\\[") for line in lines]
    return "\n\n".join(["Example:" if len(lines) == 1 else "Examples:", *shown])
