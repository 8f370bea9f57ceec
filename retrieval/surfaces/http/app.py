"""The application: its routes, and what happens around each request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from retrieval.domain.errors import RetrievalError
from retrieval.domain.items.embedding import Embedder
from retrieval.domain.llm import LLM
from retrieval.settings import Settings
from retrieval.surfaces.http.admission import Access, Admission
from retrieval.surfaces.http.answers import on_error, on_invalid, on_status
from retrieval.surfaces.http.authentication import RATE_HEADERS
from retrieval.surfaces.http.caller import Handles
from retrieval.surfaces.http.frame import Frame, LocalOnly
from retrieval.surfaces.http.front import add_front
from retrieval.surfaces.http.json_bodies import LARGE_AT_ONCE
from retrieval.surfaces.http.limits import Limits
from retrieval.surfaces.http.openapi import describe, operation_id
from retrieval.surfaces.http.readiness import ReadinessCheck
from retrieval.surfaces.http.routes import ROUTERS
from retrieval.surfaces.http.sent_items import KeysInPaths
from retrieval.surfaces.http.service import Service
from retrieval.surfaces.http.telemetry import Telemetry
from retrieval.surfaces.listening import installed_version

_NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""The framework's own would put query strings and what errors say into traces: see ``telemetry``."""


def create_app(
    settings: Settings, *, embedder: Embedder | None = None, llm: LLM | None = None, insecure_local: bool = False
) -> FastAPI:
    """The application, to be run by a server of ASGI; it opens the platform when it starts and closes it at its end.

    With ``insecure_local`` no key is needed, and only requests of this machine's own are served.
    """
    service = Service(settings, embedder=embedder, llm=llm)
    access = Access(service, insecure_local=insecure_local)

    @asynccontextmanager
    async def opened(_app: FastAPI) -> AsyncIterator[None]:
        async with service, access:
            yield

    app = FastAPI(
        title="Retrieval",
        version=installed_version() or "0",
        lifespan=opened,
        redirect_slashes=False,
        # See ``front``: FastAPI's own pages load their scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        telemetry=_NO_TELEMETRY,
        generate_unique_id_function=operation_id,
    )
    app.state.service = service
    app.state.insecure_local = insecure_local
    app.state.readiness = ReadinessCheck(service)
    app.state.handles = Handles()
    app.state.large = asyncio.Semaphore(LARGE_AT_ONCE)
    describe(app)
    for router in ROUTERS:
        app.include_router(router)
    add_front(app, needs_key=not insecure_local)
    app.add_exception_handler(RetrievalError, on_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_status)
    _surround(app, access, insecure_local=insecure_local)
    return app


def _surround(app: FastAPI, access: Access, *, insecure_local: bool) -> None:
    """Put around the routes what happens to each request; what is added last is met first."""
    service = access.service
    app.add_middleware(KeysInPaths)
    app.add_middleware(Admission, access=access)
    if insecure_local:
        app.add_middleware(LocalOnly)
    app.add_middleware(Frame, limits=Limits.of(service.settings), load=service.load)
    if service.settings.http_cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=service.settings.http_cors_origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=["ETag", "Retry-After", "X-Request-ID", "Idempotency-Replayed", *RATE_HEADERS],
            max_age=600,
        )
    app.add_middleware(Telemetry, metrics=service.metrics)
