"""``retrieval keys``, ``actors`` and ``analysts``: who may call, whose feedback counts, and who reads the figures."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.api_key import MOST_FEEDBACK_CAP, MOST_PER_MINUTE, Scope
from retrieval.domain.checks import check_text
from retrieval.domain.wording import several
from retrieval.surfaces.cli.options import Yes, argument, command, confirm, flag, group, option, wants_json
from retrieval.surfaces.cli.output import print_answer, table, tell
from retrieval.surfaces.cli.run import opened
from retrieval.surfaces.since import age_or_time

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from retrieval.adapters.store.database import Database
    from retrieval.adapters.store.installed_sql import Names


app = typer.Typer()
keys = group(
    app,
    "keys",
    "Create, list and revoke the API keys of HTTP clients.\n\n"
    "A key belongs to one tenant: that of --tenant, before the command.",
    "retrieval keys create website --scope read --scope feedback",
    "retrieval keys list",
    "retrieval keys revoke k5bqp2tmy7ab",
)


@command(
    keys,
    "retrieval keys create website --scope read --scope feedback",
    "retrieval --tenant acme keys create importer --scope write --per-minute 60000 --expires 90d",
    "retrieval keys create page --scope feedback --per-minute 600 --feedback-cap 20",
)
def create(
    *,
    name: Annotated[str, argument("NAME", "What the key is for.", show_default=False)],
    scopes: Annotated[
        list[Scope] | None,
        typer.Option(
            "--scope",
            help="read: search; write: change items; feedback: judge; admin: all. Repeatable; read if not given.",
        ),
    ] = None,
    per_minute: Annotated[
        int | None,
        option(
            "N", "Requests a minute; if not given, as many as the service allows each key.", min=1, max=MOST_PER_MINUTE
        ),
    ] = None,
    feedback_cap: Annotated[
        int | None,
        option(
            "N",
            "Events on one item that count in a day; if not given, 100 for feedback alone, else 1000.",
            min=1,
            max=MOST_FEEDBACK_CAP,
        ),
    ] = None,
    expires: Annotated[str | None, option("WHEN", "After a time such as 90d, or on a date; else never.")] = None,
) -> None:
    """Create a key and show it, only this once: the database stores only its hash.

    Standard output is the key alone.
    """
    expires_at = None if expires is None else age_or_time(expires, option="--expires")
    with opened() as (platform, wait):
        if isinstance(expires_at, timedelta):
            expires_at = platform.now + expires_at
        made = wait(
            platform.create_key(
                name,
                scopes=scopes or [Scope.READ],
                requests_per_minute=per_minute,
                feedback_cap=feedback_cap,
                expires_at=expires_at,
            )
        )
    print_answer({"key": made.text, **made.key.as_dict()}, made.text)
    if not wants_json():
        tell(f"keep it: it is not shown again; revoke it with: retrieval keys revoke {made.key.key_id}")


@command(keys, "retrieval keys list", name="list")
def list_keys() -> None:
    """List the tenant's keys, without their secret parts."""
    with opened() as (platform, wait):
        listed, now = wait(platform.keys()), platform.now
    rows = table(
        ["key", "name", "scopes", "a minute", "a day on an item", "state", "expires", "last used"],
        (
            (
                key.key_id,
                key.name,
                ", ".join(scope.value for scope in Scope if scope in key.scopes),
                key.requests_per_minute,
                key.feedback_cap if key.may_send_feedback else None,
                key.state(now),
                key.expires_at and key.expires_at.date(),
                key.last_used_at and key.last_used_at.date(),
            )
            for key in listed
        ),
    )
    value = [{**key.as_dict(), "state": key.state(now)} for key in listed]
    print_answer(value, rows if listed else "no keys yet; create one with: retrieval keys create NAME")


@command(keys, "retrieval keys revoke k5bqp2tmy7ab")
def revoke(
    *,
    key_id: Annotated[str, argument("KEY_ID", "The key's id, or the key itself.", show_default=False)],
) -> None:
    """Revoke a key permanently. A running service may accept it for 5 more seconds."""
    with opened() as (platform, wait):
        revoked = wait(platform.revoke_key(key_id))
    print_answer(revoked, f"key {revoked.key_id} ({revoked.name}) is revoked")


Actor = Annotated[str, argument("ACTOR", "The actor's name, as recorded.")]

actors = group(
    app,
    "actors",
    "Replace actors' names by pseudonyms, or exclude their feedback.",
    "retrieval actors pseudonymise ann@example.com --yes",
)


@command(actors, "retrieval actors pseudonymise ann@example.com --yes")
def pseudonymise(*, actor: Actor, yes: Yes = False) -> None:
    """Replace an actor's name by a pseudonym in recorded searches and feedback.

    The pseudonym is random: nothing leads back to the name. Names of
    sessions are removed; the words of queries, and notes, stay as they are.
    """
    with opened() as (platform, wait):
        confirm(f"Replace {actor:.80} permanently in all records?", yes=yes)
        report = wait(platform.pseudonymise(actor))
    searches, events = several(report.retrievals, "search"), several(report.feedback, "event")
    print_answer(report, f"{searches} and {events} of feedback now have the name {report.pseudonym}")


@command(actors, "retrieval actors quarantine bot-7 --reason spam")
def quarantine(
    *,
    actor: Actor,
    reason: Annotated[str, option("TEXT", "The reason, for later reference.")] = "",
) -> None:
    """Exclude an actor's past and future feedback.

    The events are kept, with their weights.
    """
    with opened() as (platform, wait):
        _print_events(wait(platform.quarantine(actor, reason=reason)), "no longer")


@command(actors, "retrieval actors release bot-7")
def release(*, actor: Actor) -> None:
    """Let an actor's feedback count again."""
    with opened() as (platform, wait):
        _print_events(wait(platform.release(actor)), "again")


def _print_events(events: int, how: str) -> None:
    verb = "counts" if events == 1 else "count"
    print_answer({"events": events}, f"{several(events, 'event')} of feedback {how} {verb}")


_LONGEST_LOGIN = 63
"""The longest name of PostgreSQL."""

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
def add(*, login: Login, only_sql: Sql = False) -> None:
    """Let a login read the tenant's figures; it writes nothing.

    RETRIEVAL_DATABASE_URL must use the login that set up the schema.
    """
    from retrieval.adapters.store.installation.access import add_analyst, adding

    done = f"{login} may read this tenant's figures"
    _change(login, add_analyst, adding, done=done, only_sql=only_sql)


@analysts.command("delete", hidden=True)
@command(analysts, "retrieval analysts remove ann")
def remove(*, login: Login, only_sql: Sql = False) -> None:
    """Remove a login's access to the tenant; the login itself stays."""
    from retrieval.adapters.store.installation.access import remove_analyst, removing

    done = f"{login} may no longer read this tenant's figures"
    _change(login, remove_analyst, removing, done=done, only_sql=only_sql)


@command(analysts, "retrieval analysts list", name="list")
def list_analysts() -> None:
    """List the logins that see the tenant."""
    from retrieval.adapters.store.installation.access import analysts as stored_analysts

    with opened() as (platform, wait):
        listed = wait(stored_analysts(platform.database, platform.tenant_id))
    rows = table(["login", "added"], ((analyst.login, analyst.added_at.date()) for analyst in listed))
    nobody = "no analysts yet; add one with: retrieval analysts add LOGIN"
    print_answer(listed, rows if listed else nobody)


def _change(
    login: str,
    change: Callable[[Database, int, str], Coroutine[Any, Any, None]],
    statements: Callable[[Names, int, str], list[str]],
    *,
    done: str,
    only_sql: bool,
) -> None:
    """Change the login's access, or only print the statements that do it. Raises ``InvalidRequestError``."""
    check_text("LOGIN", login, _LONGEST_LOGIN)

    with opened() as (platform, wait):
        if not only_sql:
            wait(change(platform.database, platform.tenant_id, login))
        lines = [f"{statement};" for statement in statements(platform.database.names, platform.tenant_id, login)]
    value = {"login": login, "is_run": not only_sql, "statements": lines}
    print_answer(value, lines if only_sql else done)
