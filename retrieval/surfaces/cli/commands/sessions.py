"""``retrieval session-start`` and ``session-end``: hooks of an agent's sessions, which must never delay them.

The start hook runs before a session begins, so it imports only what it needs, and not SQLAlchemy. On any error the
program prints one line on standard error and exits with 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from retrieval.apps.principles.principle import COLLECTION
from retrieval.apps.principles.startup.surroundings import (
    MOST,
    EndOptions,
    HookInput,
    SessionOutcome,
    StartOptions,
    look_around,
    read_hook_input,
    session_name,
)
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.collection import check_collection_name
from retrieval.surfaces.cli.errors import hint
from retrieval.surfaces.cli.options import Json, by_commas, command, option, program_settings

if TYPE_CHECKING:
    from retrieval.apps.principles.startup.start import SessionStart
    from retrieval.apps.principles.traces import Trace
    from retrieval.settings import Settings


app = typer.Typer()

Folder = Annotated[Path | None, option("DIR", "The session's folder; else the hook's, else the current.", "--cwd")]
SessionId = Annotated[str | None, option("ID", "The session; else the hook's.", "--session")]
Principles = Annotated[str, option("NAME", "The collection of the principles.", "--collection")]


@command(
    app,
    "retrieval session-start",
    "retrieval session-start --cwd ~/shop --session s-1 --format json --limit 5 --explore 1",
)
def session_start(
    *,
    cwd: Folder = None,
    shape: Annotated[Literal["text", "json"], typer.Option("--format", help="How the principles are shown.")] = "text",
    session: SessionId = None,
    collection: Principles = COLLECTION,
    limit: Annotated[int, option("N", f"Principles at most, 1 to {MOST}.", min=1, max=MOST)] = 10,
    explore: Annotated[int, option("N", f"How many of them are explored, 0 to {MOST}.", min=0, max=MOST)] = 2,
    as_json: Json = False,
) -> None:
    """Give a session the principles that fit its project, and some that are new.

    For an agent's hook: the output becomes part of the session. A JSON
    object with session_id and cwd is read from standard input, if there is
    one.

    The exit code is always 0, for wrong usage too, and a hint is one line
    on standard error. RETRIEVAL_SESSION_START_SECONDS limits the time.
    """
    from retrieval.apps.principles.startup.start import start_session

    check_collection_name(collection)
    options = StartOptions(
        folder=cwd, session=session_name(session), collection=collection, limit=limit, explore=explore
    )
    settings, say = program_settings(), partial(hint, "session-start")

    def show(started: SessionStart) -> None:
        if not started.principles:
            say("there are no principles to give yet; add one: see docs/how-to/principles.md")
        sys.stdout.write(started.as_json() if as_json or shape == "json" else started.as_text())
        sys.stdout.flush()

    with _time_limit("session-start", settings):
        asyncio.run(start_session(options, settings, _hook_input(options), say, show))


@command(app, "retrieval session-end --session s-1 --outcome success --tags testing,sql")
def session_end(
    *,
    cwd: Folder = None,
    session: SessionId = None,
    outcome: Annotated[SessionOutcome, typer.Option(help="How the session went.")] = SessionOutcome.SUCCESS,
    tags: Annotated[str, option("A,B", "Its subjects, besides those of its project.")] = "",
    title: Annotated[str, option("TEXT", "A sentence; else the folder and the latest commit.")] = "",
    collection: Principles = COLLECTION,
    as_json: Json = False,
) -> None:
    """Store the subjects of a session, and how it went.

    For an agent's hook, like session-start: the tags of the successful
    sessions of the last 7 days help to choose the principles of later ones.
    The exit code is always 0, and a hint is one line on standard error.
    """
    check_collection_name(collection)
    options = EndOptions(
        folder=cwd,
        session=session_name(session),
        outcome=outcome,
        tags=by_commas(tags),
        title=title.strip(),
        collection=collection,
    )
    settings = program_settings()
    with _time_limit("session-end", settings) as deadline:
        trace = _store(options, settings, deadline)
    if as_json:
        from retrieval.surfaces.cli.output import print_json

        print_json(trace.as_dict())


def _store(options: EndOptions, settings: Settings, deadline: float) -> Trace:
    """Store the trace of the session, by ``deadline`` (``time.monotonic`` seconds). Raises ``RetrievalError``."""
    from retrieval.adapters.store.installation.embedded.place import check_is_made, default_home
    from retrieval.apps.principles.startup.start import end_session
    from retrieval.platform import connect

    if settings.database_url is None:
        check_is_made(settings.home or default_home())
    hook = _hook_input(options)
    folder = options.folder or Path(hook.folder or ".")
    if not folder.is_dir() and not options.tags:
        raise InvalidRequestError(f"{str(folder)!r:.200} is not a folder, and no tags are given; nothing is stored")
    surroundings = look_around(folder, deadline, partial(hint, "session-end"))

    async def work() -> Trace:
        # The trace is stored without its vector: jobs embed it, where there is an embedder.
        async with connect(settings=settings.changed(embedder="none")) as platform:
            return await end_session(platform, options, hook, surroundings)

    return asyncio.run(work())


def _hook_input(options: StartOptions | EndOptions) -> HookInput:
    """The agent's description of the session; not read if the options give all of it."""
    is_complete = options.folder is not None and options.session is not None
    return HookInput() if is_complete else read_hook_input()


@contextlib.contextmanager
def _time_limit(hook: str, settings: Settings) -> Iterator[float]:
    """Yield the deadline (``time.monotonic`` seconds) at which the process ends, even if the block hangs."""
    from retrieval.apps.principles.startup.start import watchdog

    seconds = settings.session_start_seconds
    late = f"not done within {seconds:g} s; RETRIEVAL_SESSION_START_SECONDS sets the limit"
    with watchdog(seconds, partial(hint, hook, late)):
        yield time.monotonic() + seconds
