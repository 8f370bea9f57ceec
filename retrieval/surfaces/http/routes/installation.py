"""The state of the service, its figures and its metrics: routes and models."""

from __future__ import annotations

import hmac
import math
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from pydantic import BaseModel, Field
from pydantic.config import JsonDict

from retrieval.adapters.store.installation.queue import JobRun
from retrieval.adapters.store.search.indexes import IndexStatus
from retrieval.adapters.store.search.recall import Measurement
from retrieval.domain.api_key import Scope
from retrieval.domain.diagnosis import Diagnosis, Finding, Severity
from retrieval.domain.records.analytics import AnalyticsColumn, AnalyticsView
from retrieval.platform import Platform
from retrieval.services.collections import CollectionStatus
from retrieval.services.doctor.diagnose import diagnose
from retrieval.services.reembed import Reembedding, ReembeddingCost
from retrieval.settings import Settings
from retrieval.surfaces.http.caller import CurrentPlatform, needs
from retrieval.surfaces.http.json_bodies import CollectionName, JSONAnswer, JSONBodies
from retrieval.surfaces.http.models import AnswerPart, Sent
from retrieval.surfaces.http.problems import RefusalError
from retrieval.surfaces.http.readiness import HOLDS_SECONDS, Readiness, ReadinessCheck
from retrieval.surfaces.http.service import Service
from retrieval.surfaces.since import age_or_time, time_of


class Live(AnswerPart, examples=[{"status": "alive"}]):
    """The process is running."""

    status: Literal["alive"]


class Checks(AnswerPart, of=Readiness):
    """The state of each part: `ok`, or its fault."""


class Ready(
    AnswerPart,
    examples=[
        {
            "status": "ready",
            "checks": {
                "database": "ok",
                "schema": "ok",
                "pool": "ok",
                "embedder": "ok",
                "language_model": "none",
                "reranker": "none",
                "replicas": "none",
            },
        }
    ],
):
    """Whether requests can be served, and the state of each part."""

    status: Literal["ready", "degraded", "not ready"]
    checks: Checks


_REEMBEDDING: JsonDict = {
    "collection": "tickets",
    "former": "minilm/all-MiniLM-L6-v2@1.0.0 (384)",
    "target": "openai/text-embedding-3-large (3072)",
    "state": "filling",
    "is_paused": False,
    "switching": "when asked",
    "items": 1200,
    "pending": 880,
    "without_text": 0,
    "batch_texts": 128,
    "tokens_a_minute": None,
    "tokens_a_day": 2_000_000,
    "spent_today": 41_200,
    "paid_tokens": 41_200,
    "paid_texts": 320,
    "comparison": None,
    "note": "",
    "started_at": "2026-05-31T12:00:00+00:00",
    "switched_at": None,
    "removes_at": None,
}
_COST: JsonDict = {
    "target": "openai/text-embedding-3-large (3072)",
    "items": 1200,
    "without_text": 0,
    "texts": 1187,
    "tokens": 152_300,
    "price": 0.0198,
    "vector_bytes": 15_345_600,
    "minutes": None,
    "days": 1,
    "note": "",
}


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


class ReembeddingCostTold(AnswerPart, of=ReembeddingCost):
    """The cost of moving a collection to another embedding space."""


class ReembeddingTold(AnswerPart, of=Reembedding, examples=[_REEMBEDDING]):
    """The state of a collection's re-embedding."""


class ReembeddingBegun(BaseModel, json_schema_extra={"examples": [{"reembedding": _REEMBEDDING}, {"cost": _COST}]}):
    """The re-embedding that began, or only its cost."""

    cost: ReembeddingCostTold | None = None
    """Only in the response of a dry run."""
    reembedding: ReembeddingTold | None = None
    """Left out in the response of a dry run."""


class FindingTold(AnswerPart, of=Finding):
    """The result of one check."""

    severity: Severity


class DiagnosisTold(
    AnswerPart,
    of=Diagnosis,
    examples=[
        {
            "examined_at": "2026-05-31T12:00:00+00:00",
            "is_sound": True,
            "worst": "warning",
            "findings": [
                {
                    "check": "pending",
                    "severity": "warning",
                    "about": "tickets",
                    "found": "3 items of collection 'tickets' without a vector yet: only words find them",
                    "mend": "retrieval jobs run embed --collection tickets",
                }
            ],
        }
    ],
):
    """The results of all checks, the worst first."""

    worst: Severity


class IndexTold(AnswerPart, of=IndexStatus):
    """An index for approximate search."""


class RunTold(AnswerPart, of=JobRun):
    """The last run of a job."""


class MeasurementTold(AnswerPart, of=Measurement):
    """The recall of an index, for searches whose filters match about the same number of items."""


class CollectionStateTold(AnswerPart, of=CollectionStatus):
    """The state of one collection."""


class StatisticsTold(
    AnswerPart,
    examples=[
        {
            "collections": [
                {
                    "name": "tickets",
                    "items": 1200,
                    "space": "openai/text-embedding-3-small/1536",
                    "pending": 0,
                    "weights_pending": False,
                    "indexes": [],
                    "runs": [],
                    "recall": [],
                    "unrecorded": {},
                    "chosen_model": None,
                }
            ]
        }
    ],
):
    """The state of each collection, by name."""

    collections: list[CollectionStateTold]


class ColumnTold(AnswerPart, of=AnalyticsColumn):
    """A column of a view."""


class ViewTold(AnswerPart, of=AnalyticsView):
    """A view that can be queried."""


class ViewsTold(
    AnswerPart,
    examples=[
        {
            "views": [
                {
                    "name": "latency",
                    "about": "How long searches took, by day.",
                    "columns": [{"name": "day", "type": "date", "about": ""}],
                }
            ]
        }
    ],
):
    """The views, by name."""

    views: list[ViewTold]


class FiguresTold(
    AnswerPart,
    examples=[
        {
            "view": "poor_queries",
            "columns": ["collection", "query", "searches"],
            "rows": [{"collection": "tickets", "query": "vpn", "searches": 12}],
        }
    ],
):
    """The rows of a view, most significant first."""

    view: str
    columns: list[str]
    rows: list[dict[str, Any]]
    """The rows, by column; times in ISO 8601."""


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


doctor_router = APIRouter(prefix="/v1", tags=["figures"], dependencies=[needs(Scope.ADMIN)])


@doctor_router.get("/doctor", response_model=DiagnosisTold, summary="Examine the installation")
async def doctor(
    request: Request,
    platform: CurrentPlatform,
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
    prefix="/v1/collections/{name}/reembedding",
    tags=["collections"],
    route_class=JSONBodies,
    dependencies=[needs(Scope.ADMIN)],
)


@reembedding_router.get("", response_model=ReembeddingTold, summary="See the state of a re-embedding")
async def reembedding(name: CollectionName, platform: CurrentPlatform) -> JSONAnswer:
    """The progress of the collection's move to another embedding space, and the comparison of the two spaces."""
    return JSONAnswer((await platform.reembedding(name)).as_dict())


@reembedding_router.post("", response_model=ReembeddingBegun, summary="Re-embed a collection")
async def reembed(name: CollectionName, platform: CurrentPlatform, body: ReembedRequest) -> JSONAnswer:
    """Begin to move the collection to another embedding space; a worker does the rest. Searches and writes continue.

    With `dry_run` it begins nothing and reports the cost: it counts every text without a vector in that space.
    """
    pace = {"tokens_a_minute": body.tokens_a_minute, "tokens_a_day": body.tokens_a_day}
    if body.dry_run:
        cost = await platform.reembed_cost(name, to=body.to, price=body.price, **pace)
        return JSONAnswer({"cost": cost.as_dict()})
    started = await platform.reembed(
        name, to=body.to, switch=body.switch, batch_texts=body.batch_texts, keep_days=body.keep_days, **pace
    )
    return JSONAnswer({"reembedding": started.as_dict()})


@reembedding_router.post("/{action}", response_model=ReembeddingTold, summary="Steer a re-embedding")
async def steer_reembedding(
    name: CollectionName,
    platform: CurrentPlatform,
    action: Annotated[
        Literal["pause", "resume", "switch", "rollback", "finish", "abort"], Path(description="The action.")
    ],
) -> JSONAnswer:
    """Pause, resume or abort it; switch (a worker does it), return to the former space, or remove that space."""
    return JSONAnswer((await platform.reembedding(name, action, wait=False)).as_dict())


figures_router = APIRouter(prefix="/v1", tags=["figures"], dependencies=[needs(Scope.READ)])

_SINCE = "The start of the period: an ISO 8601 date or time, or an age such as `30m`, `12h`, `7d`, `4w`."


@figures_router.get("/statistics", response_model=StatisticsTold, summary="Read the state of the collections")
async def statistics(platform: CurrentPlatform) -> JSONAnswer:
    """The stored items, the pending work, the indexes, the last runs of jobs, and the measurements."""
    return JSONAnswer({"collections": [statistic.as_dict() for statistic in await platform.statistics()]})


@figures_router.get("/analytics", response_model=ViewsTold, summary="List the views of figures")
async def analytics_views(platform: CurrentPlatform) -> JSONAnswer:
    """The views of searches, items, exploration and feedback, each with its columns."""
    return JSONAnswer({"views": [analytics_view.as_dict() for analytics_view in await platform.analytics_views()]})


@figures_router.get("/analytics/{view}", response_model=FiguresTold, summary="Read a view of figures")
async def analytics(
    *,
    platform: CurrentPlatform,
    view: Annotated[str, Path(description="The name of a view.", examples=["poor_queries"])],
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


metrics_router = APIRouter(tags=["health"])


class MetricsClosedError(RefusalError):
    """The service does not publish metrics."""

    status = 403

    def __init__(self) -> None:
        super().__init__("metrics need a token; set RETRIEVAL_METRICS_TOKEN for the service")


class MetricsTokenError(RefusalError):
    """The metrics need their own token."""

    status = 401

    def __init__(self) -> None:
        super().__init__(
            "the metrics need the token of RETRIEVAL_METRICS_TOKEN, sent as Authorization: Bearer TOKEN",
            headers={"WWW-Authenticate": 'Bearer realm="metrics"'},
        )


@metrics_router.get(
    "/metrics", summary="Read the metrics for Prometheus", response_class=PlainTextResponse, operation_id="metrics"
)
async def metrics(request: Request) -> Response:
    """Figures in Prometheus' text format; `docs/how-to/observe.md` lists them."""
    service: Service = request.app.state.service
    check_metrics_access(
        service.settings, request.headers.get("authorization", ""), insecure_local=request.app.state.insecure_local
    )
    await service.figures.refresh(service.opened)
    return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def check_metrics_access(settings: Settings, authorization: str, *, insecure_local: bool) -> None:
    """Raise ``MetricsClosedError`` if no token is set, ``MetricsTokenError`` for a wrong or missing token."""
    if insecure_local:
        return
    if settings.metrics_token is None:
        raise MetricsClosedError
    scheme, _, token = authorization.partition(" ")
    expected = settings.metrics_token.get_secret_value()
    if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), expected.encode()):
        raise MetricsTokenError
