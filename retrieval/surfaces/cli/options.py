"""The options before the command, and options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.surfaces.cli.completion import complete_collection

if TYPE_CHECKING:
    from retrieval.domain.learning.context import Context
    from retrieval.settings import Settings


@dataclass(slots=True)
class State:
    """The global options of one run of the program."""

    debug: bool = False
    tenant: str | None = None

    def settings(self) -> Settings:
        """The settings of the environment, changed by the options of the command line.

        Raises pydantic's ``ValidationError`` for values that cannot work.
        """
        from retrieval.settings import Settings

        settings = Settings()
        return settings if self.tenant is None else settings.changed(tenant=self.tenant)


def state_of(context: typer.Context) -> State:
    """The global options that this command was called with."""
    return context.ensure_object(State)


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


def collection_option(about: str) -> Any:
    """The option ``--collection`` of a command that does not need one, with its help text."""
    return typer.Option("--collection", "-c", metavar="NAME", help=about, autocompletion=complete_collection)


OneCollection = Annotated[str | None, collection_option("This collection; else all of the tenant.")]
RetrievalId = Annotated[
    str, typer.Argument(metavar="RETRIEVAL_ID", help="As the search's result has it.", show_default=False)
]
Queries = Annotated[
    Path,
    typer.Option(
        "--queries",
        metavar="FILE",
        help="Queries, one JSON object a line: id, text, metadata; or CSV, without --qrels.",
        show_default=False,
    ),
]
Judgements = Annotated[
    Path | None,
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
    from retrieval.domain.search.profile import leg_name

    names = dict.fromkeys(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise InvalidRequestError("--legs names no leg; write for example --legs dense,lexical")
    return tuple(leg_name(name).value for name in names)


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


def schema_of(file: Path | None) -> dict[str, Any] | None:
    """The JSON Schema that a file holds; None for no file. Raises ``InvalidRequestError``."""
    from retrieval.domain.checks import JSONTextError, json_of
    from retrieval.domain.errors import InvalidRequestError

    if file is None:
        return None
    try:
        value = json_of(file.read_bytes())
    except (OSError, JSONTextError) as error:
        raise InvalidRequestError(f"cannot read the schema in {file}: {error}") from None
    if not isinstance(value, dict):
        raise InvalidRequestError(f"{file} holds no schema: write one JSON object")
    return value


def examples(*lines: str) -> str:
    """The examples at the end of a help text, each on a line of its own."""
    shown = [line.replace("[", "\\[") for line in lines]
    return "\n\n".join(["Example:" if len(lines) == 1 else "Examples:", *shown])


Actor = Annotated[str, typer.Option("--actor", metavar="NAME", help="Who asks.", show_default=False)]
Session = Annotated[
    str, typer.Option("--session", metavar="NAME", help="What belongs together: a conversation, a run.")
]
Domain = Annotated[str, typer.Option("--domain", metavar="NAME", help="What the question is about, in a word.")]
Complexity = Annotated[float | None, typer.Option("--complexity", metavar="C", help="How hard the problem is, 0 to 1.")]
Backtracks = Annotated[
    int, typer.Option("--backtracks", metavar="N", help="How often the same problem was asked about before.")
]
Generated = Annotated[
    bool, typer.Option("--generated", help="Say that a model made candidates for this problem already.")
]


def situation(**given: Any) -> Context:
    """The same for the platform. Raises ``InvalidRequestError``."""
    from retrieval.domain.learning.context import Context

    return Context(**given)
