"""``retrieval serve`` and ``mcp``: everything over HTTP, and tools for agents by the Model Context Protocol."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import Annotated, Literal

import typer

from retrieval.adapters.extras import require_extra
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.collection import check_collection_name
from retrieval.surfaces.cli.options import PROGRAM, command, flag, option, program_settings, wants_json
from retrieval.surfaces.cli.output import print_json_line, show
from retrieval.surfaces.cli.run import stop_signal

app = typer.Typer()


@command(app, "retrieval serve --insecure-local", "retrieval serve --host 0.0.0.0 --port 8080 --log-format json")
def serve(
    *,
    host: Annotated[str, option("ADDRESS", "Where to listen.")] = "127.0.0.1",
    port: Annotated[int, option("N", "The port; 0 takes a free one.", min=0, max=65535)] = 8000,
    insecure_local: Annotated[bool, flag("Serve only this machine, without keys.", "--insecure-local")] = False,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="The format of the log on standard error, a line per request.")
    ] = "text",
) -> None:
    """Serve everything over HTTP: collections, search, feedback, tickets.

    Clients send an API key (see: retrieval keys create), which decides
    their tenant and their rights; --insecure-local needs no key, and serves
    only programs of this machine. /docs describes the calls.

    It serves even while the database is down, and /readyz says so. It runs
    until ctrl-C or SIGTERM, and then finishes the requests in flight.
    """
    require_extra("http", "the HTTP service", "fastapi", "fastapi_offline", "uvicorn", "prometheus_client")
    from retrieval.adapters.store.installation.opening import described_server
    from retrieval.surfaces.http.app import has_console, run_service
    from retrieval.surfaces.http.telemetry import configure_service_logging
    from retrieval.surfaces.listening import new_loop

    settings = program_settings()
    configure_service_logging(settings, as_json=log_format == "json", debug=PROGRAM.get().debug)

    def announce(url: str) -> None:
        if wants_json():
            print_json_line({"url": url})
            return
        show(f"serving at {url} (API reference: {url}/docs)")
        if has_console(settings):
            show(f"in a browser: {url}/console")
        if insecure_local:
            show(f"from {described_server(settings)}; collections of the tenant {settings.tenant!r}")
            show(f"try, in another terminal: curl {url}/v1/collections")
        else:
            show("callers need a key; create one with: retrieval keys create NAME")

    async def work() -> None:
        await run_service(settings, host, port, stop_signal(), announce, insecure_local=insecure_local)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work())


@command(
    app,
    "retrieval mcp",
    "retrieval mcp --tools collections,memories",
    "retrieval mcp --transport http --port 8765 --keys",
)
def mcp(
    *,
    transport: Annotated[
        Literal["stdio", "http"],
        typer.Option(help="stdio: for the one client that starts it; http: for many, at /mcp."),
    ] = "stdio",
    host: Annotated[
        str, option("ADDRESS", "Where to listen over http; 0.0.0.0 needs a token or --keys.")
    ] = "127.0.0.1",
    port: Annotated[int, option("N", "The port over http; 0 takes a free one.", min=0, max=65535)] = 8765,
    names: Annotated[
        list[str] | None, option("NAME", "Another name of this machine that clients use. Repeatable.", "--name")
    ] = None,
    tools: Annotated[
        list[str] | None,
        option(
            "GROUPS",
            "principles, collections, memories; with :read, such as collections:read, only for reading. "
            "By commas, or repeatable. Without it principles,collections:read,memories:read; with --keys all three.",
        ),
    ] = None,
    read_only: Annotated[bool, flag("Offer no tool that stores anything.", "--read-only")] = False,
    keys: Annotated[
        bool, flag("Over http: clients send API keys (see: retrieval keys), with their scopes.", "--keys")
    ] = False,
    collection: Annotated[
        str, option("NAME", "The collection of principles; made if missing.", "--collection", "-c")
    ] = "principles",
    memories: Annotated[str, option("NAME", "The collection of memories; made if missing.", "--memories")] = "memories",
) -> None:
    """Serve collections, memories and principles to agents, by MCP.

    It serves even while the database is down, until ctrl-C or SIGTERM; over
    stdio until the client closes standard input. Tools that store items or
    memories are offered if --tools names their group.

    Over http it serves only this machine, unless RETRIEVAL_MCP_TOKEN is
    set: then every request must have that token. With --keys each request
    has an API key, which decides its tenant and its rights.
    """
    require_extra("mcp", "the MCP server", "mcp")
    for name in (collection, memories):
        check_collection_name(name)
    if keys and transport == "stdio":
        raise InvalidRequestError("--keys goes with --transport http; over stdio use --read-only or --tools")
    settings = program_settings()
    from retrieval.surfaces.mcp.running import ServerAddress, run_http, run_stdio
    from retrieval.surfaces.mcp.served import EVERY_TOOL, Offer, groups_named

    offer = Offer(principles=collection, memories=memories)
    if tools or keys:
        offer = replace(offer, groups=groups_named(tools) if tools else EVERY_TOOL)
    offer = offer.read_only() if read_only else offer

    def announce(url: str) -> None:
        if wants_json():
            print_json_line({"url": url})
        else:
            show(f"serving {', '.join(offer.groups)} at {url}")

    async def serve_clients() -> None:
        if transport == "http":
            address = ServerAddress(host, port, names or [], asks_keys=keys)
            await run_http(settings, offer, address, stop_signal(), announce)
        elif not await run_stdio(settings, offer, stop_signal()):
            # A thread may be waiting for standard input, and nothing could end it.
            os._exit(0)

    asyncio.run(serve_clients())
