"""The state of the service, its figures and its metrics: routes and models."""

from __future__ import annotations

import hmac
import math
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from pydantic import BeforeValidator, Field

from retrieval.adapters.store.items.collection_facts import CollectionStatus
from retrieval.domain.diagnosis import Diagnosis
from retrieval.domain.records.analytics import AnalyticsView
from retrieval.platform import Platform
from retrieval.services.doctor.diagnose import diagnose
from retrieval.services.reembed import Reembedding, ReembeddingCost
from retrieval.surfaces.http.caller import AdminPlatform, ReadPlatform, service_of
from retrieval.surfaces.http.json_bodies import CollectionName, JSONAnswer, JSONBodies, restore
from retrieval.surfaces.http.models import AnswerPart, Sent, listed, model_of
from retrieval.surfaces.http.problems import RefusalError
from retrieval.surfaces.http.readiness import HOLDS_SECONDS, Readiness, ReadinessCheck
from retrieval.surfaces.since import age_or_time, time_of


class Live(AnswerPart):
    """The process is running."""

    status: Literal["alive"]


class Ready(AnswerPart):
    """Whether requests can be served, and the state of each part."""

    status: Literal["ready", "degraded", "not ready"]
    checks: Readiness


class ReembedRequest(Sent, examples=[{"to": "minilm", "tokens_a_day": 2_000_000}]):
    """The embedding space that a collection moves to, and how."""

    to: str | None = None
    """The embedder, as `RETRIEVAL_EMBEDDER` names it; left out: that of new collections."""
    dry_run: bool = False
    """Whether to report only the cost, and begin nothing."""
    price: float | None = None
    """The price of a million tokens, for the cost that a dry run reports."""
    switch: bool = False
    """Whether to switch automatically once the new space is filled and compares well; otherwise the switch waits."""
    batch_texts: Annotated[int, Field(ge=1, le=128)] = 128
    """The number of texts embedded and stored at a time."""
    tokens_a_minute: Annotated[int, Field(ge=1)] | None = None
    tokens_a_day: Annotated[int, Field(ge=1)] | None = None
    """The budget of a day (UTC)."""
    keep_days: Annotated[float, Field(ge=0, le=3650)] = 7.0
    """The days that the former space is kept after the switch."""


class ReembeddingBegun(AnswerPart):
    """The re-embedding that began, or only its cost."""

    cost: ReembeddingCost | None = None
    """Only in the response of a dry run."""
    reembedding: Reembedding | None = None
    """Left out in the response of a dry run."""


Statistics = listed("Statistics", "The state of each collection, by name.", collections=CollectionStatus)
AnalyticsViews = listed("AnalyticsViews", "The views, by name.", views=AnalyticsView)


class AnalyticsRows(AnswerPart):
    """The rows of a view, most significant first."""

    view: str
    columns: list[str]
    rows: list[dict[str, Any]]
    """The rows, by column; times in ISO 8601."""


figures_router = APIRouter(prefix="/v1", tags=["figures"])
health_router = APIRouter(tags=["health"])


@health_router.get("/livez", summary="Whether the process is running")
async def livez() -> Live:
    """It responds as long as the process runs, whatever the state of the database. No key is needed."""
    return Live(status="alive")


@health_router.get(
    "/readyz", summary="Whether requests can be served", response_model=Ready, responses={503: {"model": Ready}}
)
async def readyz(request: Request) -> JSONAnswer:
    """The state of database, schema, pool, embedder and language model; 503 if requests would fail.

    It is `degraded` while the embedder (searches are then by words only) or the language model is unavailable. No key
    is needed. Results are reused for a second, that of a working embedder for a minute.
    """
    check: ReadinessCheck = request.app.state.readiness
    readiness = await check()
    answer = {"status": readiness.status, "checks": asdict(readiness)}
    if readiness.is_ready:
        return JSONAnswer(answer)
    return JSONAnswer(answer, 503, {"Retry-After": str(math.ceil(HOLDS_SECONDS))})


@figures_router.get("/doctor", response_model=model_of(Diagnosis), summary="Examine the installation")
async def doctor(
    request: Request,
    platform: AdminPlatform,
    collection: Annotated[
        str | None, Query(description="Only this collection; by default all of the tenant's.")
    ] = None,
) -> JSONAnswer:
    """The findings about faults, the worst first, each with its remedy. Nothing is changed.

    With a key it covers the tenant's collections; if the service needs no keys, also the server and the whole
    installation.
    """
    return JSONAnswer((await examined(request, platform, collection)).as_dict())


async def examined(request: Request, platform: Platform, collection: str | None) -> Diagnosis:
    """The findings that the caller may see: with a key, only those about the collections of its tenant.

    Raises ``UnknownCollectionError``.
    """
    if request.app.state.insecure_local:
        return await platform.doctor(collection)
    if collection is not None:
        await platform.collection(collection, create=False)
    return await diagnose(platform.workplace, platform.tenant_id, collection, is_own=True)


reembedding_router = APIRouter(
    prefix="/v1/collections/{name}/reembedding", tags=["collections"], route_class=JSONBodies
)


@reembedding_router.get("", response_model=model_of(Reembedding), summary="See the state of a re-embedding")
async def reembedding(name: CollectionName, platform: AdminPlatform) -> JSONAnswer:
    """The progress of the collection's move to another embedding space, and the comparison of the two spaces."""
    return JSONAnswer((await platform.reembedding(name)).as_dict())


@reembedding_router.post("", response_model=ReembeddingBegun, summary="Re-embed a collection")
async def reembed(name: CollectionName, platform: AdminPlatform, body: ReembedRequest) -> JSONAnswer:
    """Begin to move the collection to another embedding space; a worker does the rest. Searches and writes continue.

    With `dry_run` it begins nothing and reports the cost: it counts every text without a vector in that space.
    """
    if body.dry_run:
        parts = body.model_dump(include={"to", "price", "tokens_a_minute", "tokens_a_day"})
        return JSONAnswer({"cost": (await platform.reembed_cost(name, **parts)).as_dict()})
    started = await platform.reembed(name, **body.model_dump(exclude={"dry_run", "price"}))
    return JSONAnswer({"reembedding": started.as_dict()})


@reembedding_router.post("/{action}", response_model=model_of(Reembedding), summary="Steer a re-embedding")
async def steer_reembedding(
    name: CollectionName,
    platform: AdminPlatform,
    action: Annotated[
        Literal["pause", "resume", "switch", "rollback", "finish", "abort"],
        BeforeValidator(restore),
        Path(description="The action."),
    ],
) -> JSONAnswer:
    """Pause, resume or abort it; switch (a worker does it), return to the former space, or remove that space."""
    return JSONAnswer((await platform.reembedding(name, action, wait=False)).as_dict())


_SINCE = "The start of the period: an ISO 8601 date or time, or an age such as `30m`, `12h`, `7d`, `4w`."


@figures_router.get("/statistics", response_model=Statistics, summary="Read the state of the collections")
async def statistics(platform: ReadPlatform) -> JSONAnswer:
    """The stored items, the pending work, the indexes, the last runs of jobs, and the measurements."""
    return JSONAnswer({"collections": [statistic.as_dict() for statistic in await platform.statistics()]})


@figures_router.get("/analytics", response_model=AnalyticsViews, summary="List the views of figures")
async def analytics_views(platform: ReadPlatform) -> JSONAnswer:
    """The views of searches, items, exploration and feedback, each with its columns."""
    return JSONAnswer({"views": [analytics_view.as_dict() for analytics_view in await platform.analytics_views()]})


@figures_router.get("/analytics/{view}", response_model=AnalyticsRows, summary="Read a view of figures")
async def analytics(
    *,
    platform: ReadPlatform,
    view: Annotated[str, BeforeValidator(restore), Path(description="The name of a view.", examples=["poor_queries"])],
    collection: Annotated[str | None, Query(description="Only this collection.")] = None,
    since: Annotated[str | None, Query(description=_SINCE, examples=["7d"])] = None,
    until: Annotated[
        str | None, Query(description="The end of the period (exclusive): an ISO 8601 date or time.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="The greatest number of rows.")] = 1000,
) -> JSONAnswer:
    """The rows, most significant first, of one or all collections, for a period or all time."""
    begin = None if since is None else age_or_time(since, option="since")
    end = None if until is None else time_of("until", until)
    figures = await platform.analytics(view, collection=collection, since=begin, until=end, limit=limit)
    return JSONAnswer({"view": figures.view, "columns": list(figures.columns), "rows": figures.as_dicts()})


class MetricsClosedError(RefusalError):
    """The service does not publish metrics."""

    status = 403
    message = "metrics need a token; set RETRIEVAL_METRICS_TOKEN for the service"


class MetricsTokenError(RefusalError):
    """The metrics need their own token."""

    status = 401
    message = "the metrics need the token of RETRIEVAL_METRICS_TOKEN, sent as Authorization: Bearer TOKEN"
    fixed_headers: ClassVar = {"WWW-Authenticate": 'Bearer realm="metrics"'}


@health_router.get(
    "/metrics", summary="Read the metrics for Prometheus", response_class=PlainTextResponse, operation_id="metrics"
)
async def metrics(request: Request) -> Response:
    """Figures in Prometheus' text format; `docs/how-to/observe.md` lists them."""
    service = service_of(request)
    if not request.app.state.insecure_local:
        expected = service.settings.metrics_token
        if expected is None:
            raise MetricsClosedError
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        is_same = hmac.compare_digest(token.strip().encode(), expected.get_secret_value().encode())
        if scheme.lower() != "bearer" or not is_same:
            raise MetricsTokenError
    await service.figures.refresh()
    return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)
