"""``retrieval analysts``: logins that read one tenant's figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.checks import check_text
from retrieval.surfaces.cli.options import Json, argument, command, flag, group
from retrieval.surfaces.cli.output import print_answer, table
from retrieval.surfaces.cli.run import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from retrieval.adapters.store.database import Database
    from retrieval.adapters.store.installed_sql import Names


_LONGEST_LOGIN = 63
"""The longest name of PostgreSQL."""

app = typer.Typer()
analysts = group(
    app,
    "analysts",
    "Let logins of PostgreSQL read only one tenant's figures.\n\n"
    "The tenant is that of --tenant, before the command. A database\n"
    "administrator creates the login; no setting of the analyst's shows\n"
    "another tenant.",
    "retrieval analysts add ann",
    "retrieval analysts list",
)

Login = Annotated[str, argument("LOGIN", "The login's name in PostgreSQL.")]
Sql = Annotated[bool, flag("Run nothing: print the statements, for a database administrator to run.", "--sql")]


@command(analysts, "retrieval analysts add ann", "retrieval analysts add ann --sql")
def add(*, login: Login, only_sql: Sql = False, as_json: Json = False) -> None:
    """Let a login read the tenant's figures; it writes nothing.

    RETRIEVAL_DATABASE_URL must use the login that set up the schema.
    """
    from retrieval.adapters.store.installation.access import add_analyst, adding

    done = f"{login} may read this tenant's figures"
    _change(login, add_analyst, adding, done=done, only_sql=only_sql, as_json=as_json)


@analysts.command("delete", hidden=True)
@command(analysts, "retrieval analysts remove ann")
def remove(*, login: Login, only_sql: Sql = False, as_json: Json = False) -> None:
    """Remove a login's access to the tenant; the login itself stays."""
    from retrieval.adapters.store.installation.access import remove_analyst, removing

    done = f"{login} may not read this tenant's figures any more"
    _change(login, remove_analyst, removing, done=done, only_sql=only_sql, as_json=as_json)


@command(analysts, "retrieval analysts list", name="list")
def list_analysts(*, as_json: Json = False) -> None:
    """List the logins that see the tenant."""
    from retrieval.adapters.store.installation.access import analysts as stored_analysts

    with opened() as (platform, wait):
        listed = wait(stored_analysts(platform.database, platform.tenant_id))
    rows = table(["login", "added"], ((analyst.login, analyst.added_at.date()) for analyst in listed))
    nobody = "no analysts yet; add one with: retrieval analysts add LOGIN"
    print_answer(listed, rows if listed else nobody, as_json=as_json)


def _change(
    login: str,
    change: Callable[[Database, int, str], Coroutine[Any, Any, None]],
    statements: Callable[[Names, int, str], list[str]],
    *,
    done: str,
    only_sql: bool,
    as_json: bool,
) -> None:
    """Change the login's access, or only print the statements that do it. Raises ``InvalidRequestError``."""
    check_text("LOGIN", login, _LONGEST_LOGIN)

    with opened() as (platform, wait):
        if not only_sql:
            wait(change(platform.database, platform.tenant_id, login))
        lines = [f"{statement};" for statement in statements(platform.database.names, platform.tenant_id, login)]
    value = {"login": login, "is_run": not only_sql, "statements": lines}
    print_answer(value, lines if only_sql else done, as_json=as_json)
