"""``retrieval keys``: the API keys of a tenant."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from retrieval.domain.api_key import MOST_FEEDBACK_CAP, MOST_PER_MINUTE, Scope
from retrieval.surfaces.cli.options import Json, argument, command, group, option
from retrieval.surfaces.cli.output import print_answer, table_of, tell
from retrieval.surfaces.cli.run import opened
from retrieval.surfaces.since import age_or_time

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
    as_json: Json = False,
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
    print_answer({"key": made.text, **made.key.as_dict()}, made.text, as_json=as_json)
    if not as_json:
        tell(f"keep it: it is not shown again; revoke it with: retrieval keys revoke {made.key.key_id}")


@command(keys, "retrieval keys list", name="list")
def list_keys(*, as_json: Json = False) -> None:
    """List the tenant's keys, without their secret parts."""
    with opened() as (platform, wait):
        listed, now = wait(platform.keys()), platform.now
    rows = table_of(
        listed,
        {
            "key": lambda key: key.key_id,
            "name": lambda key: key.name,
            "scopes": lambda key: ", ".join(scope.value for scope in Scope if scope in key.scopes),
            "a minute": lambda key: key.requests_per_minute,
            "a day on an item": lambda key: key.feedback_cap if key.may_send_feedback else None,
            "state": lambda key: key.state(now),
            "expires": lambda key: key.expires_at and key.expires_at.date(),
            "last used": lambda key: key.last_used_at and key.last_used_at.date(),
        },
    )
    value = [{**key.as_dict(), "state": key.state(now)} for key in listed]
    print_answer(value, rows if listed else "no keys yet; create one with: retrieval keys create NAME", as_json=as_json)


@command(keys, "retrieval keys revoke k5bqp2tmy7ab")
def revoke(
    *,
    key_id: Annotated[str, argument("KEY_ID", "The key's id, or the key itself.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Revoke a key permanently. A running service may accept it for 5 more seconds."""
    with opened() as (platform, wait):
        revoked = wait(platform.revoke_key(key_id))
    print_answer(revoked, f"key {revoked.key_id} ({revoked.name}) is revoked", as_json=as_json)
