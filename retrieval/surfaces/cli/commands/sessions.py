"""``retrieval session-start`` and ``session-end``: hooks of an agent's sessions, which must never delay them.

The start hook runs before a session begins, so it imports only what it needs, and not SQLAlchemy. On any error the
program prints one line on standard error and exits with 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from retrieval.apps.principles.principle import COLLECTION
from retrieval.apps.principles.startup.surroundings import HookInput, look_around, read_hook_input, session_name
from retrieval.domain.checks import written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.collection import check_collection_name
from retrieval.surfaces.cli.errors import hint
from retrieval.surfaces.cli.options import by_commas, command, option, program_settings, wants_json

if TYPE_CHECKING:
    from retrieval.apps.principles.startup.start import SessionStart
    from retrieval.apps.principles.traces import Trace
    from retrieval.settings import Settings


app = typer.Typer()

Folder = Annotated[Path | None, option("DIR", "The session's folder; else the hook's, else the current.", "--cwd")]
SessionId = Annotated[str | None, option("ID", "The session; else the hook's.", "--session")]
MOST = 100
"""The most principles, and the most explored ones among them."""
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
) -> None:
    """Give a session the principles that fit its project, and some that are new.

    For an agent's hook: the output becomes part of the session. A JSON
    object with session_id and cwd is read from standard input, if there is
    one; with --cwd and --session nothing is read.

    The exit code is always 0, for wrong usage too, and a hint is one line
    on standard error. RETRIEVAL_SESSION_START_SECONDS limits the time.
    """
    from retrieval.apps.principles.startup.start import start_session

    check_collection_name(collection)
    settings, say = program_settings(), partial(hint, "session-start")

    def show(started: SessionStart) -> None:
        is_json = wants_json() or shape == "json"
        sys.stdout.write(json.dumps(started.as_dict(), ensure_ascii=False) + "\n" if is_json else started.as_text())
        sys.stdout.flush()

    with _time_limit("session-start", settings) as deadline:
        folder, name = _folder_and_session(cwd, session, deadline)
        asyncio.run(
            start_session(
                settings, say, show, folder=folder, until=deadline, session=name, collection=collection, limit=limit,
                explore=explore,
            )
        )  # fmt: skip


@command(app, "retrieval session-end --session s-1 --outcome success --tags testing,sql")
def session_end(
    *,
    cwd: Folder = None,
    session: SessionId = None,
    outcome: Annotated[Literal["success", "failure"], typer.Option(help="How the session went.")] = "success",
    tags: Annotated[str, option("A,B", "Its subjects, besides those of its project.")] = "",
    title: Annotated[str, option("TEXT", "A sentence; else the folder and the latest commit.")] = "",
    collection: Principles = COLLECTION,
) -> None:
    """Store the subjects of a session, and how it went.

    For an agent's hook, like session-start: the tags of the successful
    sessions of the last 7 days help to choose the principles of later ones.
    The exit code is always 0, and a hint is one line on standard error.
    """
    check_collection_name(collection)
    from retrieval.adapters.store.installation.embedded.home import check_is_made, default_home
    from retrieval.apps.principles.startup.start import end_session
    from retrieval.platform import connect

    given, settings = by_commas(tags), program_settings()
    with _time_limit("session-end", settings) as deadline:
        folder, name = _folder_and_session(cwd, session, deadline)
        if settings.database_url is None:
            check_is_made(settings.home or default_home())
        if not folder.is_dir() and not given:
            raise InvalidRequestError(
                f"{written(str(folder), 200)} is not a folder, and no tags are given; nothing is stored"
            )
        surroundings = look_around(folder, deadline, partial(hint, "session-end"))

        async def work() -> Trace:
            # The trace is stored without its vector: jobs embed it, where there is an embedder.
            async with connect(settings=settings.changed(embedder="none")) as platform:
                return await end_session(
                    platform,
                    surroundings,
                    folder=folder,
                    session=name,
                    outcome=outcome,
                    tags=given,
                    title=title.strip(),
                    collection=collection,
                )

        trace = asyncio.run(work())
    if wants_json():
        from retrieval.surfaces.cli.output import print_json

        print_json(trace.as_dict())


def _folder_and_session(folder: Path | None, session: str | None, deadline: float) -> tuple[Path, str]:
    """The session's folder and name: as given, else as the hook's input says; the name may be empty."""
    name = None if session is None else session_name(session)
    hook = HookInput() if folder is not None and name is not None else read_hook_input(deadline)
    return folder or Path(hook.folder or "."), name or hook.session


@contextlib.contextmanager
def _time_limit(hook: str, settings: Settings) -> Iterator[float]:
    """Yield the deadline (``time.monotonic`` seconds), at which a thread ends the process with 0, after a hint.

    It ends the process because a call that blocks in the kernel cannot be interrupted.
    """
    seconds = settings.session_start_seconds

    def end() -> None:
        try:
            hint(hook, f"not done within {seconds:g} s; RETRIEVAL_SESSION_START_SECONDS sets the limit")
        finally:
            os._exit(0)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield time.monotonic() + seconds
    finally:
        timer.cancel()
