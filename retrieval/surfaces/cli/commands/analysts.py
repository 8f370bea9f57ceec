"""``retrieval analysts``: logins that read one tenant's figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli.options import Json, examples, state_of

if TYPE_CHECKING:
    from retrieval.adapters.store.installation.access import Analyst
    from retrieval.platform import Platform


EXAMPLES = ("retrieval analysts add ann", "retrieval analysts add ann --sql")

app = typer.Typer(rich_markup_mode="rich", epilog=examples(EXAMPLES[0], "retrieval analysts list"))

Login = Annotated[str, typer.Argument(metavar="LOGIN", help="The login's name in PostgreSQL.", show_default=False)]
Sql = Annotated[
    bool, typer.Option("--sql", help="Run nothing: print the statements, for a database administrator to run.")
]


@app.callback(invoke_without_command=True)
def analysts(context: typer.Context) -> None:
    """Let logins of PostgreSQL read one tenant's figures, and nothing else.

    The tenant is that of --tenant, before the command. The login is made by
    a database administrator; nothing that the analyst sets shows another
    tenant.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(epilog=examples(*EXAMPLES))
def add(context: typer.Context, *, login: Login, only_sql: Sql = False, as_json: Json = False) -> None:
    """Let a login see the tenant; it writes nothing.

    RETRIEVAL_DATABASE_URL must be of the login that set up the schema.
    """
    from retrieval.surfaces.cli.run import run

    async def work(platform: Platform) -> list[str]:
        from retrieval.adapters.store.installation.access import add_analyst, adding

        if not only_sql:
            await add_analyst(platform.database, platform.tenant_id, login)
        return adding(platform.database.names, platform.tenant_id, login)

    _print(run(state_of(context), work), login, is_run=not only_sql, as_json=as_json)


@app.command(epilog=examples("retrieval analysts remove ann"))
def remove(context: typer.Context, *, login: Login, only_sql: Sql = False, as_json: Json = False) -> None:
    """Let a login see the tenant no more; the login itself stays."""
    from retrieval.surfaces.cli.run import run

    async def work(platform: Platform) -> list[str]:
        from retrieval.adapters.store.installation.access import remove_analyst, removing

        if not only_sql:
            await remove_analyst(platform.database, platform.tenant_id, login)
        return removing(platform.database.names, platform.tenant_id, login)

    _print(run(state_of(context), work), login, is_run=not only_sql, as_json=as_json)


@app.command("list", epilog=examples("retrieval analysts list"))
def list_analysts(context: typer.Context, *, as_json: Json = False) -> None:
    """List the logins that see the tenant."""
    from retrieval.surfaces.cli.output import console, print_json, table
    from retrieval.surfaces.cli.run import run

    found = run(state_of(context), _analysts)
    if as_json:
        print_json([{"login": one.login, "added_at": one.added_at.isoformat()} for one in found])
    elif found:
        console().print(table(["login", "added"], ((one.login, f"{one.added_at:%Y-%m-%d}") for one in found)))
    else:
        console().print("no analysts yet; add one with: retrieval analysts add LOGIN", soft_wrap=True)


async def _analysts(platform: Platform) -> list[Analyst]:
    from retrieval.adapters.store.installation.access import analysts

    return await analysts(platform.database, platform.tenant_id)


def _print(statements: list[str], login: str, *, is_run: bool, as_json: bool) -> None:
    from retrieval.surfaces.cli.output import console, plain, print_json

    if as_json:
        print_json({"login": login, "is_run": is_run, "statements": [f"{one};" for one in statements]})
        return
    for statement in statements:
        console().print(plain(f"{statement};"), soft_wrap=True)
