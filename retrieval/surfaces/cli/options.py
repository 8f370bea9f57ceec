"""Options that several commands share, the options before the command, and their completion in the shell."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.checks import JSONTextError, json_of
from retrieval.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from retrieval.adapters.store.database import Database
    from retrieval.domain.learning.context import Context
    from retrieval.settings import Settings


Completions = list[tuple[str, str]]
"""The possible completions, each with a description."""

ASK_SECONDS = 1.5
"""The longest that the tab key waits for the database."""


def complete_collection(context: typer.Context, incomplete: str) -> Completions:
    """The tenant's collections."""
    from retrieval.adapters.store.installation.opening import collection_names

    return _completions(context, lambda database, tenant: collection_names(database, tenant, incomplete))


def complete_view(context: typer.Context, incomplete: str) -> Completions:
    """The views of figures."""
    from retrieval.adapters.store.records.analytics import analytics_views

    async def names(database: Database, tenant_id: int) -> Completions:
        views = await analytics_views(database, tenant_id)
        return [(view.name, view.about) for view in views if view.name.startswith(incomplete)]

    return _completions(context, names)


def complete_profile(context: typer.Context, incomplete: str) -> Completions:
    """The versions of the profile of the collection argument."""
    from retrieval.adapters.store.installation.opening import profile_versions

    name = context.params.get("collection")
    if not isinstance(name, str):
        return []
    return _completions(context, lambda database, tenant: profile_versions(database, tenant, name, incomplete))


def complete_job(incomplete: str) -> list[str]:
    """The jobs, each of which has a schedule."""
    from retrieval.settings import DEFAULT_SCHEDULE

    return [name for name in DEFAULT_SCHEDULE if name.startswith(incomplete)]


def complete_legs(incomplete: str) -> list[str]:
    """Legs, after a comma too, each once: ``dense,le`` becomes ``dense,lexical``."""
    from retrieval.domain.search.profile import LegName

    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{leg.value}" for leg in LegName if leg.value.startswith(last) and leg.value not in taken]


def _completions(context: typer.Context, ask: Callable[[Database, int], Awaitable[Completions]]) -> Completions:
    """The database's answer; empty on any error, which the shell could not show within the line."""
    try:
        return asyncio.run(asyncio.wait_for(_query(context.find_root().params.get("tenant"), ask), ASK_SECONDS))
    except Exception:  # noqa: BLE001 - the command itself will report it
        return []


async def _query(tenant: str | None, ask: Callable[[Database, int], Awaitable[Completions]]) -> Completions:
    """The answer of the configured database, or of the embedded one if it is running."""
    from retrieval.adapters.store.installation.embedded.place import default_home, is_running
    from retrieval.adapters.store.installation.opening import ensure_tenant, open_database
    from retrieval.settings import Settings

    settings = Settings() if tenant is None else Settings().changed(tenant=tenant)
    if settings.database_url is None and not is_running(settings.home or default_home()):
        return []
    async with AsyncExitStack() as stack:
        database = await open_database(settings, stack)
        return await ask(database, await ensure_tenant(database, settings.tenant))


@dataclass(slots=True)
class State:
    """The global options of one run of the program."""

    debug: bool = False
    tenant: str | None = None

    def settings(self) -> Settings:
        """The settings of the environment, changed by the options of the command line.

        Raises ``InvalidRequestError`` for values that cannot work.
        """
        from retrieval.settings import Settings

        settings = Settings()
        return settings if self.tenant is None else settings.changed(tenant=self.tenant)


def confirm(question: str, *, yes: bool, as_json: bool = False) -> None:
    """Ask before a command that cannot be undone, unless ``yes``.

    Raises ``InvalidRequestError`` for the answer no, and without a terminal to ask at.
    """
    check_terminal(question, yes=yes, as_json=as_json)
    if not yes and not typer.confirm(question, err=True):
        raise InvalidRequestError("the answer was no: nothing was done")


def has_terminal() -> bool:
    """Whether a person can answer questions on standard input."""
    return sys.stdin is not None and sys.stdin.isatty()


def check_terminal(question: str, *, yes: bool, as_json: bool = False) -> None:
    """Raise ``InvalidRequestError`` if there is no terminal to ask at, unless ``yes``."""
    if not yes and (as_json or not has_terminal()):
        raise InvalidRequestError(f"{question} There is no terminal to ask at; to go on, give --yes")


def state_of(context: typer.Context) -> State:
    """The global options that this command was called with."""
    return context.ensure_object(State)


Json = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output, one object per line.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
CollectionName = Annotated[
    str, typer.Argument(metavar="COLLECTION", help="The collection's name.", autocompletion=complete_collection)
]


def collection_option(about: str, *names: str) -> Any:
    """The option that names a collection, by default ``--collection`` or ``-c``, with its help text."""
    names = names or ("--collection", "-c")
    return typer.Option(*names, metavar="NAME", help=about, autocompletion=complete_collection)


OneCollection = Annotated[str | None, collection_option("This collection; else all of the tenant.")]
RetrievalId = Annotated[str, typer.Argument(metavar="RETRIEVAL_ID", help="The identifier in the search's result.")]
Queries = Annotated[
    Path,
    typer.Option(
        "--queries",
        metavar="FILE",
        help="Queries, one JSON object a line: id, text, metadata; or CSV, without --qrels.",
    ),
]
Judgements = Annotated[
    Path | None, typer.Option("--qrels", metavar="FILE", help="Judgements: query id, item id, score, by tabs.")
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
    """Leg names from ``dense,lexical``, each once; None for no option.

    Raises ``InvalidProfileError`` for an unknown leg, and ``InvalidRequestError`` for an empty list.
    """
    if text is None:
        return None
    from retrieval.domain.search.profile import leg_name

    names = dict.fromkeys(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise InvalidRequestError("--legs names no leg; write for example --legs dense,lexical")
    return tuple(leg_name(name).value for name in names)


def filterable_of(pairs: Sequence[str]) -> dict[str, str]:
    """Types by attribute, from ``priority:text`` and the like.

    Raises ``InvalidRequestError`` for an invalid pair, or an attribute that is given twice.
    """
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
    """The JSON Schema in a file; None for no file. Raises ``InvalidRequestError``."""
    if file is None:
        return None
    try:
        value = json_of(file.read_bytes())
    except (OSError, JSONTextError) as error:
        raise InvalidRequestError(f"cannot read the schema in {file}: {error}") from None
    if not isinstance(value, dict):
        raise InvalidRequestError(f"{file} does not contain a schema: write one JSON object")
    return value


def examples(*lines: str) -> str:
    """The examples at the end of a help text, each on a line of its own."""
    shown = [line.replace("[", "\\[") for line in lines]
    return "\n\n".join(["Example:" if len(lines) == 1 else "Examples:", *shown])


Actor = Annotated[str, typer.Option("--actor", metavar="NAME", help="Who asks.")]
Session = Annotated[
    str, typer.Option("--session", metavar="NAME", help="A name of related searches: a conversation, a run.")
]
Domain = Annotated[str, typer.Option("--domain", metavar="NAME", help="What the question is about, in a word.")]
Complexity = Annotated[float | None, typer.Option("--complexity", metavar="C", help="How hard the problem is, 0 to 1.")]
Backtracks = Annotated[int, typer.Option("--backtracks", metavar="N", help="Earlier attempts at the same problem.")]
Generated = Annotated[bool, typer.Option("--generated", help="A model has already made candidates for this problem.")]


def situation(**options: Any) -> Context:
    """The context of a search, from the options above. Raises ``InvalidRequestError``."""
    from retrieval.domain.learning.context import Context

    return Context(**options)
