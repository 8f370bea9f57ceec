"""``retrieval mcp``: principles for agents, by the Model Context Protocol."""

from __future__ import annotations

import importlib.util
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli.completion import complete_collection
from retrieval.surfaces.cli.state import state_of

if TYPE_CHECKING:
    from retrieval.settings import Settings
    from retrieval.surfaces.mcp.running import Place

EXAMPLES = (
    "retrieval mcp",
    "retrieval mcp --transport http --port 8765",
)


class Transport(StrEnum):
    """How the client and the server talk."""

    STDIO = "stdio"
    HTTP = "http"


def mcp(
    context: typer.Context,
    *,
    transport: Annotated[
        Transport, typer.Option(help="stdio: for the one client that starts it; http: for many, at /mcp.")
    ] = Transport.STDIO,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where to listen over http; 0.0.0.0 needs a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="N", help="The port over http; 0 takes a free one.")
    ] = 8765,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="NAME", help="Another name that clients call this machine by. Repeatable."),
    ] = None,
    collection: Annotated[
        str,
        typer.Option(
            "--collection",
            "-c",
            metavar="NAME",
            help="The collection of principles; made if missing.",
            autocompletion=complete_collection,
        ),
    ] = "principles",
    as_json: Annotated[
        bool, typer.Option("--json", help="Tell the address as JSON; over stdio it is the protocol that is printed.")
    ] = False,
) -> None:
    """Serve principles to agents, by the Model Context Protocol (MCP).

    An agent's tool starts it and talks to it: search_principles,
    rate_principle, add_principle, list_tags, list_loaded_principles. It
    answers even while the database is down, and says so.

    Over http it serves this machine alone, unless RETRIEVAL_MCP_TOKEN is
    set: then every request has to bear that token. It runs until ctrl-C
    or SIGTERM; over stdio until the client closes standard input.
    """
    from retrieval.domain.collection_name import check_collection_name

    _require_extra()
    check_collection_name(collection)
    settings = state_of(context).settings()
    if transport is Transport.HTTP:
        from retrieval.surfaces.mcp.running import Place

        _serve_http(settings, collection, Place(host, port, names or []), as_json=as_json)
    else:
        _serve_stdio(settings, collection)


def _serve_stdio(settings: Settings, collection: str) -> None:
    import asyncio
    import os

    from retrieval.surfaces.cli.stopping import stop_signal
    from retrieval.surfaces.mcp.running import run_stdio

    async def serve() -> None:
        if not await run_stdio(settings, collection, stop_signal()):
            # A thread waits for standard input, which nothing would end.
            os._exit(0)

    asyncio.run(serve())


def _serve_http(settings: Settings, collection: str, place: Place, *, as_json: bool) -> None:
    import asyncio

    from retrieval.surfaces.cli.output import console, print_json_line
    from retrieval.surfaces.cli.stopping import stop_signal
    from retrieval.surfaces.mcp.running import run_http

    def announce(url: str) -> None:
        if as_json:
            print_json_line({"url": url})
        else:
            console().print(f"serving principles at {url}", soft_wrap=True)

    async def serve() -> None:
        await run_http(settings, collection, place, stop_signal(), announce)

    asyncio.run(serve())


def _require_extra() -> None:
    from retrieval.domain.errors import MissingExtraError
    from retrieval.surfaces.version import DISTRIBUTION

    if importlib.util.find_spec("mcp") is None:
        raise MissingExtraError(
            "the MCP server needs the SDK of the protocol, which is missing; "
            f"install it with: pip install '{DISTRIBUTION}[mcp]'"
        )
