"""Options that several commands share, the options before the command, and their completion in the shell."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.checks import JSONTextError, json_of
from retrieval.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from retrieval.adapters.store.database import Database
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


def _completions(context: typer.Context, ask: Callable[[Database, int], Awaitable[Completions]]) -> Completions:
    """The answer of the configured database, or of the embedded one if it is running; empty on any error."""
    from retrieval.adapters.store.installation.embedded.place import default_home, is_running
    from retrieval.adapters.store.installation.opening import ensure_tenant, open_database

    async def query() -> Completions:
        PROGRAM.set(ProgramOptions(context.find_root().params.get("tenant")))
        settings = program_settings()
        if settings.database_url is None and not is_running(settings.home or default_home()):
            return []
        async with AsyncExitStack() as stack:
            database = await open_database(settings, stack)
            return await ask(database, await ensure_tenant(database, settings.tenant))

    try:
        return asyncio.run(asyncio.wait_for(query(), ASK_SECONDS))
    except Exception:  # noqa: BLE001 - the shell cannot show it, the command will
        return []


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """The options before the command."""

    tenant: str | None = None
    debug: bool = False


PROGRAM: ContextVar[ProgramOptions] = ContextVar("PROGRAM", default=ProgramOptions())  # noqa: B039 - it is frozen
"""The options of the present run of the program."""


def program_settings() -> Settings:
    """The settings of the environment, changed by the options before the command.

    Raises ``InvalidRequestError`` for values that cannot work.
    """
    from retrieval.settings import Settings

    tenant = PROGRAM.get().tenant
    return Settings() if tenant is None else Settings().changed(tenant=tenant)


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


Json = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
CollectionName = Annotated[
    str, typer.Argument(metavar="COLLECTION", help="The collection's name.", autocompletion=complete_collection)
]


def option(metavar: str, about: str, *names: str, **settings: Any) -> Any:
    """An option with the name of its value and a help text; without ``names`` it has the parameter's."""
    return typer.Option(*names, metavar=metavar, help=about, **settings)


def collection_option(about: str, *names: str) -> Any:
    """The option that names a collection, by default ``--collection`` or ``-c``, with its help text."""
    names = names or ("--collection", "-c")
    return option("NAME", about, *names, autocompletion=complete_collection)


OneCollection = Annotated[str | None, collection_option("This collection; else all of the tenant.")]
RetrievalId = Annotated[str, typer.Argument(metavar="RETRIEVAL_ID", help="The identifier in the search's result.")]
Queries = Annotated[
    Path,
    option("FILE", "Queries, one JSON object a line: id, text, metadata; or CSV, without --qrels.", "--queries"),
]
Judgements = Annotated[Path | None, option("FILE", "Judgements: query id, item id, score, by tabs.", "--qrels")]
WhereFromOption = Annotated[
    list[str] | None,
    option(
        "EXPR", "Narrow each query by its own metadata: metadata.as_of>=occurred_at. May be repeated.", "--where-from"
    ),
]
DropSelfOption = Annotated[
    str | None,
    option("NAME", "Leave out the item named in the query's metadata.NAME.", "--drop-self"),
]


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


def by_commas(text: str) -> tuple[str, ...]:
    """The parts between commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def json_file(option: str, file: str | None) -> Any:
    """The JSON value in a file; None for no file. Raises ``InvalidRequestError``, which names the option."""
    if file is None:
        return None
    try:
        return json_of(Path(file).read_bytes())
    except (OSError, JSONTextError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidRequestError(f"cannot read {option} {file!r}: {reason}") from None


def examples(*lines: str) -> str:
    """The examples at the end of a help text, each on a line of its own."""
    shown = [line.replace("[", "\\[") for line in lines]
    return "\n\n".join(["Example:" if len(lines) == 1 else "Examples:", *shown])


def group(app: typer.Typer, name: str, about: str, *lines: str) -> typer.Typer:
    """A new group of commands of the app, with its help text and examples."""
    added = typer.Typer(no_args_is_help=True)
    app.add_typer(added, name=name, help=about, epilog=examples(*lines))
    return added


Actor = Annotated[str, option("NAME", "Who asks.", "--actor")]
Session = Annotated[str, option("NAME", "A name of related searches: a conversation, a run.", "--session")]
Domain = Annotated[str, option("NAME", "What the question is about, in a word.", "--domain")]
Complexity = Annotated[float | None, option("C", "How hard the problem is, 0 to 1.", "--complexity")]
Backtracks = Annotated[int, option("N", "Earlier attempts at the same problem.", "--backtracks")]
Generated = Annotated[bool, typer.Option("--generated", help="A model has already made candidates for this problem.")]
