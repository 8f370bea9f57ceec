"""``retrieval serve``: everything over HTTP."""

from __future__ import annotations

import importlib.util
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli.state import state_of

if TYPE_CHECKING:
    from retrieval.settings import Settings

EXAMPLES = (
    "retrieval serve --insecure-local",
    "retrieval serve --host 0.0.0.0 --port 8080 --log-format json",
)


_NEXT = "who calls needs a key; make one with: retrieval keys create NAME"
_NEXT_LOCAL = "try, in another terminal: curl {url}/v1/collections"


class LogFormat(StrEnum):
    """How a record of the log becomes a line."""

    TEXT = "text"
    JSON = "json"


def serve(
    context: typer.Context,
    *,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="N", help="The port; 0 takes a free one.")
    ] = 8000,
    insecure_local: Annotated[
        bool, typer.Option("--insecure-local", help="Serve this machine alone, without asking for keys.")
    ] = False,
    log_format: Annotated[
        LogFormat,
        typer.Option("--log-format", help="How the log on standard error is written: a line a request."),
    ] = LogFormat.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="Tell the address as JSON, on one line.")] = False,
) -> None:
    """Serve everything over HTTP: collections, search, feedback, tickets.

    Programs come with a key (see: retrieval keys create), which says
    whose data they see and what they may do; --insecure-local asks for
    none, and serves programs of this machine alone. What there is to
    call stands at /docs.

    It answers even while the database is down, and says so at /readyz.
    It runs until ctrl-C or SIGTERM, and then answers what it was asked.
    """
    _require_extra()
    state = state_of(context)
    settings = state.settings()
    _configure_logging(settings, log_format, debug=state.debug)
    _run(settings, host, port, insecure_local=insecure_local, as_json=as_json)


def _configure_logging(settings: Settings, log_format: LogFormat, *, debug: bool) -> None:
    from retrieval.surfaces.http.logs import configure_service_logging

    configure_service_logging(settings, as_json=log_format is LogFormat.JSON, debug=debug)


def _run(settings: Settings, host: str, port: int, *, insecure_local: bool, as_json: bool) -> None:
    import asyncio

    from retrieval.adapters.store.installation.opening import told_server
    from retrieval.surfaces.cli.output import console, print_json_line
    from retrieval.surfaces.cli.stopping import stop_signal
    from retrieval.surfaces.http.serving import run_service
    from retrieval.surfaces.listening import new_loop

    def announce(url: str) -> None:
        if as_json:
            print_json_line({"url": url})
            return
        said = [f"serving at {url} (what there is to call: {url}/docs)"]
        said += (
            [f"from {told_server(settings)}; collections of the tenant {settings.tenant!r}"] if insecure_local else []
        )
        said += [_NEXT_LOCAL.format(url=url) if insecure_local else _NEXT]
        console().print("\n".join(said), soft_wrap=True, markup=False, highlight=False)

    async def work() -> None:
        await run_service(settings, host, port, stop_signal(), announce, insecure_local=insecure_local)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work())


def _require_extra() -> None:
    from retrieval.domain.errors import MissingExtraError
    from retrieval.surfaces.version import DISTRIBUTION

    if any(
        importlib.util.find_spec(name) is None
        for name in ("fastapi", "fastapi_offline", "uvicorn", "prometheus_client")
    ):
        raise MissingExtraError(
            "the HTTP service needs FastAPI and its server, which are missing; "
            f"install them with: pip install '{DISTRIBUTION}[http]'"
        )
