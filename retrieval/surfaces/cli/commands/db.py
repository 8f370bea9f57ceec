"""``retrieval db``: the schema's revision."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.cli.errors import FAILED
from retrieval.surfaces.cli.options import Json, State, examples, state_of
from retrieval.surfaces.cli.output import print_json

if TYPE_CHECKING:
    from retrieval.adapters.store.installation.revisions import SchemaStatus


app = typer.Typer(
    rich_markup_mode="rich",
    epilog=examples("RETRIEVAL_DATABASE_URL=postgresql://admin@localhost/shop retrieval db upgrade"),
)


@app.callback(invoke_without_command=True)
def db(context: typer.Context) -> None:
    """Set up the database, bring it up to date, or ask how it stands.

    All of them work on RETRIEVAL_DATABASE_URL, else on the embedded PostgreSQL, which is started.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(epilog=examples("retrieval db upgrade"))
def upgrade(
    context: typer.Context,
    *,
    revision: Annotated[str, typer.Argument(help="The revision to go to.")] = "head",
    as_json: Json = False,
) -> None:
    """Make the schema, or bring it to a newer revision.

    Only one upgrade runs at a time; others wait for it.
    """
    from retrieval.adapters.store.installation import schema

    with _server(state_of(context)) as (url, name):
        schema.upgrade(url, name, revision)
        found = schema.status(url, name)
        _print(found, url, _sentence(found), as_json=as_json)


@app.command(
    # "-1" is a revision here, not an option.
    context_settings={"ignore_unknown_options": True},
    epilog=examples("retrieval db downgrade base --yes", "retrieval db downgrade -1"),
)
def downgrade(
    context: typer.Context,
    *,
    revision: Annotated[str, typer.Argument(help="The revision to go back to: its name, -1 for one back, or base.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Take the schema back to an older revision. This destroys data.

    Tables that the older revision does not have are removed with what is in them; 'base' removes everything.
    """
    from retrieval.adapters.store.installation import schema

    with _server(state_of(context)) as (url, name):
        _confirm(yes, f"Going back to {revision!r} destroys what newer revisions of schema {name!r} hold. Go on?")
        schema.downgrade(url, name, revision)
        found = schema.status(url, name)
        _print(found, url, _sentence(found), as_json=as_json)


@app.command(epilog=examples("retrieval db status --json"))
def status(context: typer.Context, *, as_json: Json = False) -> None:
    """Tell which revision the schema has and which one this program needs.

    The exit code is 0 when they are the same and 1 when they are not.
    """
    from retrieval.adapters.store.installation import schema
    from retrieval.adapters.store.translate import server_name

    with _server(state_of(context)) as (url, name):
        found = schema.status(url, name)
    _print(found, url, f"{server_name(url)}: {_sentence(found)}", as_json=as_json)
    if not found.is_current:
        raise typer.Exit(FAILED)


@app.command(epilog=examples("retrieval db sql > schema.sql"))
def sql(context: typer.Context, *, as_json: Json = False) -> None:
    """Print the whole schema as plain SQL, for a database administrator to read and run."""
    from retrieval.adapters.store.installation import schema

    name = state_of(context).settings().database_schema
    text = schema.upgrade_sql(name)
    if as_json:
        print_json({"schema": name, "sql": text})
    else:
        typer.echo(text, nl=False)


@contextmanager
def _server(state: State) -> Iterator[tuple[str, str]]:
    """The URL of the configured server, or of the embedded one while it is needed, and the schema's name."""
    from retrieval.adapters.store.installation.embedded.place import default_home
    from retrieval.adapters.store.installation.embedded.server import start_embedded

    settings = state.settings()
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value(), settings.database_schema
        return
    with start_embedded(settings.home or default_home()) as server:
        yield server.url, settings.database_schema


def _confirm(yes: bool, question: str) -> None:
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidRequestError("this destroys data and nobody is there to be asked; say it with --yes")
    typer.confirm(question, abort=True, err=True)


def _print(found: SchemaStatus, url: str, sentence: str, *, as_json: bool) -> None:
    from retrieval.adapters.store.translate import server_name

    if as_json:
        print_json(_as_dict(found, server_name(url)))
    else:
        typer.echo(sentence)


def _sentence(found: SchemaStatus) -> str:
    if found.is_current:
        return f"schema {found.schema!r} is current (revision {found.current})"
    if found.current is None:
        return f"schema {found.schema!r} is not set up; run: retrieval db upgrade"
    ahead = "" if found.known else ", which this program does not know: install a newer one"
    todo = "; run: retrieval db upgrade" if found.known else ""
    at = f"schema {found.schema!r} is at revision {found.current}{ahead}"
    return f"{at}; this program needs {found.head}{todo}"


def _as_dict(found: SchemaStatus, server: str) -> dict[str, Any]:
    return {
        "server": server,
        "schema": found.schema,
        "current": found.current,
        "head": found.head,
        "known": found.known,
        "is_current": found.is_current,
    }
