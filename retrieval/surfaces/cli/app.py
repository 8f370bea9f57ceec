"""The program's table of contents: global options and every command."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperGroup

from retrieval.surfaces.cli import (
    actors,
    analysts,
    analytics,
    collections,
    compare,
    db,
    doctor,
    evaluate,
    feedback,
    import_langchain,
    ingest,
    items,
    jobs,
    keys,
    mcp,
    memories,
    models,
    profiles,
    reindex,
    replay,
    retrievals,
    search,
    serve,
    sessions,
    status,
    tickets,
    tune,
    worker,
)
from retrieval.surfaces.cli.errors import EXIT_CODES
from retrieval.surfaces.cli.logs import configure_logging
from retrieval.surfaces.cli.options import examples
from retrieval.surfaces.cli.state import state_of
from retrieval.surfaces.version import installed_version

EXAMPLES = (
    "retrieval ingest tickets tickets.jsonl",
    'retrieval search tickets "database connection timeout"',
)


_USE, _SERVE, _LEARN = "Store and find", "Serve", "Learn"
_MEASURE, _RUN, _DATABASE = "Measure and tune", "Run and maintain", "Database"

_ORDER = (
    *("ingest", "import-langchain", "search", "collections", "items", "memories", "tickets"),
    *("serve", "keys", "mcp", "session-start", "session-end"),
    *("feedback", "retrievals", "replay", "models", "actors"),
    *("evaluate", "tune", "compare", "profiles", "analytics"),
    *("worker", "jobs", "status", "doctor", "reindex"),
    *("db", "analysts"),
)
"""The commands as a reader comes to need them, panel by panel."""


class _Contents(TyperGroup):
    """Lists the commands in that order, groups among them."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Every command by name."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))


app = typer.Typer(
    cls=_Contents,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"{examples(*EXAMPLES)}\n\n{EXIT_CODES}",
)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    version = installed_version()
    typer.echo(f"retrieval {version}" if version else "retrieval, run from its sources without being installed")
    raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    *,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", "-t", metavar="NAME", help="Whose data; else RETRIEVAL_TENANT, else 'default'."),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and the libraries' log records.")] = False,
    _version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Search that is right, fast and explainable, on nothing but PostgreSQL and pgvector.

    Without RETRIEVAL_DATABASE_URL in the environment, an embedded PostgreSQL is made and used.
    """
    state = state_of(context)
    state.tenant, state.debug = tenant, debug
    configure_logging(debug=debug)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("ingest", rich_help_panel=_USE, epilog=examples(*ingest.EXAMPLES))(ingest.ingest)
app.command("import-langchain", rich_help_panel=_USE, epilog=examples(*import_langchain.EXAMPLES))(
    import_langchain.import_langchain
)
app.command("search", rich_help_panel=_USE, epilog=examples(*search.EXAMPLES))(search.search)
app.add_typer(collections.app, name="collections", rich_help_panel=_USE)
app.add_typer(items.app, name="items", rich_help_panel=_USE)
app.add_typer(memories.app, name="memories", rich_help_panel=_USE)
app.add_typer(tickets.app, name="tickets", rich_help_panel=_USE)
app.command("serve", rich_help_panel=_SERVE, epilog=examples(*serve.EXAMPLES))(serve.serve)
app.add_typer(keys.app, name="keys", rich_help_panel=_SERVE)
app.command("mcp", rich_help_panel=_SERVE, epilog=examples(*mcp.EXAMPLES))(mcp.mcp)
app.command("session-start", rich_help_panel=_SERVE, epilog=examples(*sessions.START_EXAMPLES))(sessions.session_start)
app.command("session-end", rich_help_panel=_SERVE, epilog=examples(*sessions.END_EXAMPLES))(sessions.session_end)
app.command("feedback", rich_help_panel=_LEARN, epilog=examples(*feedback.EXAMPLES))(feedback.feedback)
app.add_typer(retrievals.app, name="retrievals", rich_help_panel=_LEARN)
app.command("replay", rich_help_panel=_LEARN, epilog=examples(*replay.EXAMPLES))(replay.replay)
app.command("models", rich_help_panel=_LEARN, epilog=examples(*models.EXAMPLES))(models.models)
app.add_typer(actors.app, name="actors", rich_help_panel=_LEARN)
app.command("evaluate", rich_help_panel=_MEASURE, epilog=examples(*evaluate.EXAMPLES))(evaluate.evaluate)
app.command("tune", rich_help_panel=_MEASURE, epilog=examples(*tune.EXAMPLES))(tune.tune)
app.command("compare", rich_help_panel=_MEASURE, epilog=examples(*compare.EXAMPLES))(compare.compare)
app.add_typer(profiles.app, name="profiles", rich_help_panel=_MEASURE)
app.command("analytics", rich_help_panel=_MEASURE, epilog=examples(*analytics.EXAMPLES))(analytics.analytics)
app.command("worker", rich_help_panel=_RUN, epilog=examples(*worker.EXAMPLES))(worker.worker)
app.add_typer(jobs.app, name="jobs", rich_help_panel=_RUN)
app.command("status", rich_help_panel=_RUN, epilog=examples(*status.EXAMPLES))(status.status)
app.command("doctor", rich_help_panel=_RUN, epilog=examples(*doctor.EXAMPLES))(doctor.doctor)
app.command("reindex", rich_help_panel=_RUN, epilog=examples(*reindex.EXAMPLES))(reindex.reindex)
app.add_typer(db.app, name="db", rich_help_panel=_DATABASE)
app.add_typer(analysts.app, name="analysts", rich_help_panel=_DATABASE)
