"""``retrieval ingest``: files into a collection."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from retrieval.surfaces.cli.options import CollectionName, Json, columns_of, filterable_of
from retrieval.surfaces.cli.state import state_of

EXAMPLES = (
    "retrieval ingest tickets tickets.jsonl.gz",
    "retrieval ingest tickets historical_tickets.csv",
    "retrieval ingest notes notes.csv --map _id=number --on-error skip",
    "retrieval ingest notes pages.jsonl --no-clean",
    "retrieval ingest tickets tickets.jsonl --filterable priority:text --filterable hours:number",
)


class OnError(StrEnum):
    """What to do with a line that holds no usable item."""

    STOP = "stop"
    SKIP = "skip"


class FileFormat(StrEnum):
    """How items are written in a file."""

    JSONL = "jsonl"
    CSV = "csv"


def ingest(
    context: typer.Context,
    *,
    collection: CollectionName,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Files, plain or gzipped; - is standard input.", show_default=False),
    ],
    file_format: Annotated[
        FileFormat | None, typer.Option("--format", "-f", help="The files' format; else their names tell.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            "-m",
            metavar="FIELD=NAME",
            help="A column, or an entry of JSON, for a field: text=description. May be repeated.",
        ),
    ] = None,
    on_error: Annotated[
        OnError,
        typer.Option("--on-error", help="What to do with a bad line: stop, or put it aside and go on."),
    ] = OnError.STOP,
    rejects: Annotated[
        Path | None,
        typer.Option(
            "--rejects", metavar="FILE", help="Where bad lines are put; else NAME.rejects.jsonl or .csv here."
        ),
    ] = None,
    clean: Annotated[
        bool,
        typer.Option(
            "--clean/--no-clean", help="Take control and format characters out, and tell how often; or refuse the line."
        ),
    ] = True,
    prune: Annotated[bool, typer.Option("--prune", help="Archive the items that the files do not have.")] = False,
    language: Annotated[
        str | None,
        typer.Option("--language", metavar="NAME", help="Text search configuration of a new collection; else english."),
    ] = None,
    filterable: Annotated[
        list[str] | None,
        typer.Option(
            "--filterable", metavar="ATTRIBUTE:TYPE", help="An attribute to index: priority:text. May be repeated."
        ),
    ] = None,
    as_json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress and no summary; only what went wrong.")
    ] = False,
) -> None:
    """Store items from files and make them searchable.

    The collection is made if it is missing. Items that did not change cost
    nothing: a run that was interrupted is completed by running it again.

    JSON Lines hold one object a line: _id, title, text, tags, metadata.
    CSV begins with a line of column names; those of tickets need no --map.
    --map names what is called otherwise; attributes.NAME is an attribute.
    """
    from retrieval.surfaces.cli.ingesting import IngestOptions, ingest_files

    chosen = IngestOptions(
        collection=collection,
        files=tuple(files),
        columns=columns_of(columns or ()),
        file_format=file_format.value if file_format else None,
        skip=on_error is OnError.SKIP,
        rejects=rejects,
        prune=prune,
        language=language,
        filterable=filterable_of(filterable or ()),
        as_json=as_json,
        quiet=quiet,
        clean=clean,
    )
    ingest_files(state_of(context), chosen)
