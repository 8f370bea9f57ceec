"""``retrieval keys``: the API keys of a tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.api_key import MOST_FEEDBACK_CAP, MOST_PER_MINUTE, ApiKey, NewApiKey, Scope
from retrieval.surfaces.cli.options import Json, examples, group, option
from retrieval.surfaces.cli.output import table, tell
from retrieval.surfaces.cli.run import answer

if TYPE_CHECKING:
    from datetime import datetime

    from rich.table import Table

    from retrieval.platform import Platform


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


@keys.command(
    epilog=examples(
        "retrieval keys create website --scope read --scope feedback",
        "retrieval --tenant acme keys create importer --scope write --per-minute 60000 --expires 90d",
        "retrieval keys create page --scope feedback --per-minute 600 --feedback-cap 20",
    )
)
def create(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is for.", show_default=False)],
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
    expires: Annotated[
        str | None,
        option("WHEN", "After a time such as 90d, or on a date; else never."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a key and show it, only this once: the database stores only its hash.

    Standard output is the key alone.
    """

    async def work(platform: Platform) -> NewApiKey:
        expires_at = _expiry(expires, platform.now)
        return await platform.create_key(
            name,
            scopes=scopes or [Scope.READ],
            requests_per_minute=per_minute,
            feedback_cap=feedback_cap,
            expires_at=expires_at,
        )

    def to_json(new_key: NewApiKey) -> dict[str, Any]:
        return {"key": new_key.text, **new_key.key.as_dict()}

    new_key = answer(work, lambda new_key: new_key.text, as_json=as_json, to_json=to_json)
    if not as_json:
        tell(f"keep it: it is not shown again; revoke it with: retrieval keys revoke {new_key.key.key_id}")


@keys.command("list", epilog=examples("retrieval keys list"))
def list_keys(*, as_json: Json = False) -> None:
    """List the tenant's keys, without their secret parts."""

    async def work(platform: Platform) -> tuple[list[ApiKey], datetime]:
        return await platform.keys(), platform.now

    def to_json(listing: tuple[list[ApiKey], datetime]) -> list[dict[str, Any]]:
        return [{**key.as_dict(), "state": key.state(listing[1])} for key in listing[0]]

    answer(work, _listing, as_json=as_json, to_json=to_json)


@keys.command(epilog=examples("retrieval keys revoke k5bqp2tmy7ab"))
def revoke(
    *,
    key_id: Annotated[
        str, typer.Argument(metavar="KEY_ID", help="The key's id, or the key itself.", show_default=False)
    ],
    as_json: Json = False,
) -> None:
    """Revoke a key permanently. A running service may accept it for 5 more seconds."""
    answer(
        lambda platform: platform.revoke_key(key_id),
        lambda revoked: f"key {revoked.key_id} ({revoked.name}) is revoked",
        as_json=as_json,
    )


def _listing(listing: tuple[list[ApiKey], datetime]) -> Table | str:
    keys, now = listing
    if not keys:
        return "no keys yet; create one with: retrieval keys create NAME"
    columns = ["key", "name", "scopes", "a minute", "a day on an item", "state", "expires", "last used"]
    return table(columns, [_row(key, now) for key in keys])


def _row(key: ApiKey, now: datetime) -> list[object]:
    days = (f"{time:%Y-%m-%d}" if time else None for time in (key.expires_at, key.last_used_at))
    cap = key.feedback_cap if key.may_send_feedback else None
    scopes = ", ".join(scope.value for scope in Scope if scope in key.scopes)
    return [key.key_id, key.name, scopes, key.requests_per_minute, cap, key.state(now), *days]


def _expiry(text: str | None, now: datetime) -> datetime | None:
    from datetime import timedelta

    from retrieval.surfaces.since import age_or_time

    if text is None:
        return None
    expiry = age_or_time(text, option="--expires")
    return now + expiry if isinstance(expiry, timedelta) else expiry
