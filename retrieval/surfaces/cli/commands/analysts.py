"""``retrieval analysts``: logins that read one tenant's figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.domain.checks import check_text
from retrieval.surfaces.cli.options import Json, examples
from retrieval.surfaces.cli.output import table
from retrieval.surfaces.cli.run import answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rich.table import Table

    from retrieval.adapters.store.database import Database
    from retrieval.adapters.store.installation.access import Analyst
    from retrieval.adapters.store.installed_sql import Names
    from retrieval.platform import Platform


EXAMPLES = ("retrieval analysts add ann", "retrieval analysts add ann --sql")

_LONGEST_LOGIN = 63
"""The longest name of PostgreSQL."""

app = typer.Typer(rich_markup_mode="rich", epilog=examples(EXAMPLES[0], "retrieval analysts list"))

Login = Annotated[str, typer.Argument(metavar="LOGIN", help="The login's name in PostgreSQL.")]
Sql = Annotated[
    bool, typer.Option("--sql", help="Run nothing: print the statements, for a database administrator to run.")
]


@app.callback(invoke_without_command=True)
def analysts(context: typer.Context) -> None:
    """Let logins of PostgreSQL read only one tenant's figures.

    The tenant is that of --tenant, before the command. A database
    administrator creates the login; no setting of the analyst's shows
    another tenant.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(epilog=examples(*EXAMPLES))
def add(context: typer.Context, *, login: Login, only_sql: Sql = False, as_json: Json = False) -> None:
    """Let a login read the tenant's figures; it writes nothing.

    RETRIEVAL_DATABASE_URL must use the login that set up the schema.
    """
    from retrieval.adapters.store.installation.access import add_analyst, adding

    done = f"{login} may read this tenant's figures"
    _change(context, login, add_analyst, adding, done=done, is_run=not only_sql, as_json=as_json)


@app.command("delete", hidden=True)
@app.command(epilog=examples("retrieval analysts remove ann"))
def remove(context: typer.Context, *, login: Login, only_sql: Sql = False, as_json: Json = False) -> None:
    """Remove a login's access to the tenant; the login itself stays."""
    from retrieval.adapters.store.installation.access import remove_analyst, removing

    done = f"{login} may not read this tenant's figures any more"
    _change(context, login, remove_analyst, removing, done=done, is_run=not only_sql, as_json=as_json)


@app.command("list", epilog=examples("retrieval analysts list"))
def list_analysts(context: typer.Context, *, as_json: Json = False) -> None:
    """List the logins that see the tenant."""
    from retrieval.adapters.store.installation.access import analysts as stored_analysts

    def present(rows: list[Analyst]) -> Table | str:
        if not rows:
            return "no analysts yet; add one with: retrieval analysts add LOGIN"
        return table(["login", "added"], ((analyst.login, f"{analyst.added_at:%Y-%m-%d}") for analyst in rows))

    answer(context, lambda platform: stored_analysts(platform.database, platform.tenant_id), present, as_json=as_json)


def _change(
    context: typer.Context,
    login: str,
    change: Callable[[Database, int, str], Awaitable[None]],
    statements: Callable[[Names, int, str], list[str]],
    *,
    done: str,
    is_run: bool,
    as_json: bool,
) -> None:
    """Change the login's access, or only print the statements that do it. Raises ``InvalidRequestError``."""
    check_text("LOGIN", login, _LONGEST_LOGIN)

    async def work(platform: Platform) -> list[str]:
        if is_run:
            await change(platform.database, platform.tenant_id, login)
        return [f"{statement};" for statement in statements(platform.database.names, platform.tenant_id, login)]

    def to_json(lines: list[str]) -> dict[str, object]:
        return {"login": login, "is_run": is_run, "statements": lines}

    def present(lines: list[str]) -> list[str] | str:
        return done if is_run else lines

    answer(context, work, present, as_json=as_json, to_json=to_json)
