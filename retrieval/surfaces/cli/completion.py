"""Completion in the shell: names from the code, and names from a database that answers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from retrieval.adapters.store.database import Database

Completions = list[tuple[str, str]]
"""The possible completions, each with a line about it."""

ASK_SECONDS = 1.5
"""The longest that the tab key waits for the database."""


def complete_collection(context: typer.Context, incomplete: str) -> Completions:
    """The tenant's collections."""
    from retrieval.adapters.store.installation.opening import collection_names

    return _asked(context, lambda database, tenant: collection_names(database, tenant, incomplete))


def complete_view(context: typer.Context, incomplete: str) -> Completions:
    """The views of figures."""
    from retrieval.adapters.store.records.analytics import analytics_views

    async def names(database: Database, tenant_id: int) -> Completions:
        views = await analytics_views(database, tenant_id)
        return [(view.name, view.about) for view in views if view.name.startswith(incomplete)]

    return _asked(context, names)


def complete_profile(context: typer.Context, incomplete: str) -> Completions:
    """The versions of the profile of the collection that was named before."""
    from retrieval.adapters.store.installation.opening import profile_versions

    name = context.params.get("collection")
    if not isinstance(name, str):
        return []
    return _asked(context, lambda database, tenant: profile_versions(database, tenant, name, incomplete))


def complete_job(incomplete: str) -> list[str]:
    """The jobs, each of which has a schedule."""
    from retrieval.domain.records.schedule import DEFAULT_SCHEDULE

    return [name for name in DEFAULT_SCHEDULE if name.startswith(incomplete)]


def complete_legs(incomplete: str) -> list[str]:
    """Legs, after a comma too, each once: ``dense,le`` becomes ``dense,lexical``."""
    from retrieval.domain.search.profile import LegName

    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{leg.value}" for leg in LegName if leg.value.startswith(last) and leg.value not in taken]


def _asked(context: typer.Context, ask: Callable[[Database, int], Awaitable[Completions]]) -> Completions:
    """The database's answer; empty without a database, because nobody reads an error in the middle of a line."""
    try:
        return asyncio.run(asyncio.wait_for(_answer(context.find_root().params.get("tenant"), ask), ASK_SECONDS))
    except Exception:  # noqa: BLE001 - whatever it is: the next command will say it
        return []


async def _answer(tenant: str | None, ask: Callable[[Database, int], Awaitable[Completions]]) -> Completions:
    """The answer of the configured database, or of the embedded one if it runs; it is not started for this."""
    from retrieval.adapters.store.installation.embedded.place import default_home, is_running
    from retrieval.adapters.store.installation.opening import ensure_tenant, open_database
    from retrieval.settings import Settings

    settings = Settings() if tenant is None else Settings().changed(tenant=tenant)
    if settings.database_url is None and not is_running(settings.home or default_home()):
        return []
    async with AsyncExitStack() as stack:
        database = await open_database(settings, stack)
        return await ask(database, await ensure_tenant(database, settings.tenant))
