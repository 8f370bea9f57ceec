"""Completion in the shell: names that the code has, and names in a database that answers at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from retrieval.adapters.store.installation.direct import DirectConnection

Completions = list[tuple[str, str]]
"""The possible completions, each with a line about it."""

ASK_SECONDS = 1.5
"""Whoever presses the tab key waits no longer for one answer."""


def complete_collection(context: typer.Context, incomplete: str) -> Completions:
    """The tenant's collections."""
    from retrieval.adapters.store.installation.direct import collection_names

    return _asked(context, lambda database: collection_names(database, incomplete, seconds=ASK_SECONDS))


def complete_view(context: typer.Context, incomplete: str) -> Completions:
    """The views of figures."""
    from retrieval.adapters.store.installation.direct import view_names

    return _asked(context, lambda database: view_names(database, incomplete, seconds=ASK_SECONDS))


def complete_profile(context: typer.Context, incomplete: str) -> Completions:
    """The versions of the profile of the collection that was named before."""
    from retrieval.adapters.store.installation.direct import profile_versions

    name = context.params.get("collection")
    if not isinstance(name, str):
        return []
    return _asked(context, lambda database: profile_versions(database, name, incomplete, seconds=ASK_SECONDS))


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


def _asked(context: typer.Context, ask: Callable[[DirectConnection], Completions]) -> Completions:
    """The database's answer; empty without a database, because nobody reads an error in the middle of a line."""
    try:
        with _connection(context.find_root().params.get("tenant")) as database:
            return [] if database is None else ask(database)
    except Exception:  # noqa: BLE001 - whatever it is: the next command will say it
        return []


@contextmanager
def _connection(tenant: str | None) -> Iterator[DirectConnection | None]:
    """The configured database, or the embedded one if it runs; it is not started for this."""
    from retrieval.adapters.store.installation.direct import connected
    from retrieval.adapters.store.installation.embedded.join import joined_server
    from retrieval.adapters.store.installation.embedded.place import default_home
    from retrieval.adapters.store.installed_sql import Names
    from retrieval.settings import Settings

    settings = Settings() if tenant is None else Settings().changed(tenant=tenant)
    whose = (Names(settings.database_schema), settings.tenant)
    if settings.database_url is not None:
        with closing(connected(settings.database_url.get_secret_value(), *whose, seconds=ASK_SECONDS)) as database:
            yield database
        return
    server = joined_server(settings.home or default_home())
    if server is None:
        yield None
        return
    with closing(server), closing(connected(server.url, *whose, seconds=ASK_SECONDS)) as database:
        yield database
