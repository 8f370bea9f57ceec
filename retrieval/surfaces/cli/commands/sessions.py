"""``retrieval session-start`` and ``retrieval session-end``: hooks of an agent's sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from retrieval.adapters.store.installation.embedded.join import check_is_made
from retrieval.apps.principles.startup.end import end_session
from retrieval.apps.principles.startup.options import EndOptions
from retrieval.apps.principles.startup.start_settings import StartSettings
from retrieval.apps.principles.startup.surroundings import HookInput, look_around, read_hook_input
from retrieval.apps.principles.traces import Trace
from retrieval.domain.errors import InvalidRequestError
from retrieval.platform import connect
from retrieval.settings import Settings
from retrieval.surfaces.cli.completion import complete_collection
from retrieval.surfaces.cli.fast_lane import END, START, run_hook
from retrieval.surfaces.cli.options import Json, state_of


def store_trace(options: EndOptions, settings: StartSettings, deadline: float, say: Callable[[str], None]) -> Trace:
    """Store the trace of the session, by ``deadline`` (``time.monotonic`` seconds). Raises ``RetrievalError``."""
    if settings.database_url is None:
        check_is_made(settings.own_home)
    is_told = options.folder is not None and options.session is not None
    hook = HookInput() if is_told else read_hook_input()
    folder = options.folder or Path(hook.folder or ".")
    if not folder.is_dir() and not options.tags:
        raise InvalidRequestError(f"{str(folder)!r:.200} is no folder, and no tags are given; nothing is stored")
    context = look_around(folder, deadline, say)

    async def work() -> Trace:
        # A vector of the trace is not waited for: jobs make it, where there is an embedder.
        async with connect(settings=Settings().changed(tenant=settings.tenant, embedder="none")) as platform:
            return await end_session(platform, options, hook, context)

    return asyncio.run(work())


START_EXAMPLES = (
    "retrieval session-start",
    "retrieval session-start --cwd ~/shop --session s-1 --format json --limit 5 --explore 1",
)
END_EXAMPLES = ("retrieval session-end --session s-1 --outcome success --tags testing,sql",)

Folder = Annotated[
    str | None, typer.Option("--cwd", metavar="DIR", help="The session's folder; else the hook's, else the current.")
]
SessionId = Annotated[str | None, typer.Option("--session", metavar="ID", help="The session; else the hook's.")]
Principles = Annotated[
    str,
    typer.Option(
        "--collection",
        metavar="NAME",
        help="The collection of the principles.",
        autocompletion=complete_collection,
    ),
]


def session_start(
    context: typer.Context,
    *,
    cwd: Folder = None,
    shape: Annotated[str, typer.Option("--format", metavar="text|json", help="How the principles are shown.")] = "text",
    session: SessionId = None,
    collection: Principles = "principles",
    limit: Annotated[str, typer.Option("--limit", metavar="N", help="Principles at most, 1 to 100.")] = "10",
    explore: Annotated[
        str, typer.Option("--explore", metavar="N", help="How many of them are explored, 0 to 100.")
    ] = "2",
    as_json: Json = False,
) -> None:
    """Give a session the principles that fit its project, and some that are new.

    For an agent's hook: what is printed becomes part of the session. A JSON
    object with session_id and cwd is read from standard input, if it comes.

    It never stands in the way: the exit code is 0 whatever happens, for wrong
    usage too, and a hint is one line on standard error.
    RETRIEVAL_SESSION_START_SECONDS says how long it may take.
    """
    asked = {"cwd": cwd, "format": "json" if as_json else shape, "session": session, "collection": collection}
    run_hook(START, _arguments({**asked, "limit": limit, "explore": explore}), state_of(context).tenant)


def session_end(
    context: typer.Context,
    *,
    cwd: Folder = None,
    session: SessionId = None,
    outcome: Annotated[
        str, typer.Option("--outcome", metavar="success|failure", help="How the session went.")
    ] = "success",
    tags: Annotated[str, typer.Option("--tags", metavar="A,B", help="What it was about, besides its project.")] = "",
    title: Annotated[
        str, typer.Option("--title", metavar="TEXT", help="In a sentence; else by folder and latest commit.")
    ] = "",
    collection: Principles = "principles",
    as_json: Json = False,
) -> None:
    """Keep what a session was about, and how it went.

    For an agent's hook, as session-start is: the tags of what went well in the
    last 7 days help to choose what later sessions are started with. The exit
    code is 0 whatever happens, and a hint is one line on standard error.
    """
    asked = {"cwd": cwd, "session": session, "outcome": outcome, "tags": tags, "title": title}
    flags = ["--json"] if as_json else []
    run_hook(END, [*_arguments({**asked, "collection": collection}), *flags], state_of(context).tenant)


def _arguments(asked: dict[str, str | None]) -> list[str]:
    return [f"--{name}={value}" for name, value in asked.items() if value is not None]
