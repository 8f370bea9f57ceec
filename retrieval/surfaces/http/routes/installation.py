"""The routes of health, findings, figures and metrics."""

from __future__ import annotations

import hmac
import math
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from retrieval.domain.api_key import Scope
from retrieval.services.doctor.diagnose import diagnose
from retrieval.settings import Settings
from retrieval.surfaces.http.caller import CurrentPlatform, needs
from retrieval.surfaces.http.json_bodies import JSONBodies
from retrieval.surfaces.http.models import installation as models
from retrieval.surfaces.http.models.installation import DiagnosisTold, Live, Ready
from retrieval.surfaces.http.problems import RefusalError
from retrieval.surfaces.http.readiness import HOLDS_SECONDS, ReadinessCheck
from retrieval.surfaces.http.sent_items import CollectionName
from retrieval.surfaces.http.service import Service
from retrieval.surfaces.since import age_or_time, time_of

health_router = APIRouter(tags=["health"])


@health_router.get("/livez", summary="Whether the process lives")
async def livez() -> Live:
    """It answers as long as the process does, whatever the database does. No key is needed."""
    return Live(status="alive")


@health_router.get(
    "/readyz", summary="Whether requests can be answered", response_model=Ready, responses={503: {"model": Ready}}
)
async def readyz(request: Request) -> JSONResponse:
    """How the database, its schema, the pool, the embedder and the language model are; 503 where requests would fail.

    Without the embedder it is `degraded`: searches are answered by words alone; and while the language model does not
    answer. No key is needed; answers hold for a second, those of an embedder that is well for a minute.
    """
    check: ReadinessCheck = request.app.state.readiness
    found = await check()
    answer = {"status": found.status, "checks": asdict(found)}
    if found.is_ready:
        return JSONResponse(answer)
    return JSONResponse(answer, 503, {"Retry-After": str(math.ceil(HOLDS_SECONDS))})


doctor_router = APIRouter(prefix="/v1", tags=["figures"], dependencies=[needs(Scope.ADMIN)])


@doctor_router.get("/doctor", response_model=DiagnosisTold, summary="Examine the installation")
async def doctor(
    request: Request,
    platform: CurrentPlatform,
    collection: Annotated[str | None, Query(description="This collection alone; else all of the tenant's.")] = None,
) -> JSONResponse:
    """The findings about what is not as it should be, the worst first, each with its remedy. It changes nothing.

    A key's tenant is told of its own collections; of the server and the whole installation too where the service asks
    for no keys.
    """
    if request.app.state.insecure_local:
        return JSONResponse((await platform.doctor(collection)).as_dict())
    if collection is not None:
        await platform.collection(collection, create=False)
    found = await diagnose(platform.workplace, platform.tenant_id, collection, is_own=True)
    return JSONResponse(found.as_dict())


reembedding_router = APIRouter(
    prefix="/v1/collections/{name}/reembedding",
    tags=["collections"],
    route_class=JSONBodies,
    dependencies=[needs(Scope.ADMIN)],
)


@reembedding_router.get("", response_model=models.ReembeddingTold, summary="See how a re-embedding stands")
async def reembedding(name: CollectionName, platform: CurrentPlatform) -> JSONResponse:
    """How far the collection is on its way to another embedding space, and how the two compare."""
    return JSONResponse((await platform.reembedding(name)).as_dict())


@reembedding_router.post("", response_model=models.ReembeddingBegun, summary="Re-embed a collection")
async def reembed(name: CollectionName, platform: CurrentPlatform, body: models.ReembedRequest) -> JSONResponse:
    """Tell what moving the collection to another embedding space costs, and begin it; a worker does the rest.

    Searches and writes go on. `dry_run` tells the cost alone.
    """
    pace = {"tokens_a_minute": body.tokens_a_minute, "tokens_a_day": body.tokens_a_day}
    answer = {"cost": (await platform.reembed_cost(name, to=body.to, price=body.price, **pace)).as_dict()}
    if not body.dry_run:
        begun = await platform.reembed(
            name, to=body.to, switch=body.switch, batch_texts=body.batch_texts, keep_days=body.keep_days, **pace
        )
        answer["reembedding"] = begun.as_dict()
    return JSONResponse(answer)


@reembedding_router.post("/{action}", response_model=models.ReembeddingTold, summary="Steer a re-embedding")
async def steer_reembedding(
    name: CollectionName,
    platform: CurrentPlatform,
    action: Annotated[
        Literal["pause", "resume", "switch", "rollback", "finish", "abort"], Path(description="What to do.")
    ],
) -> JSONResponse:
    """Pause, resume or abort it; switch (a worker does it), return to the former space, or remove that."""
    return JSONResponse((await platform.reembedding(name, action, wait=False)).as_dict())


figures_router = APIRouter(prefix="/v1", tags=["figures"], dependencies=[needs(Scope.READ)])

_SINCE = "From then on: an ISO 8601 date or time, or an age such as `30m`, `12h`, `7d`, `4w`."


@figures_router.get("/statistics", response_model=models.StatisticsTold, summary="How the collections stand")
async def statistics(platform: CurrentPlatform) -> JSONResponse:
    """The stored items, the waiting work, the indexes, the last runs of jobs, and the measurements."""
    return JSONResponse({"collections": [one.as_dict() for one in await platform.statistics()]})


@figures_router.get("/analytics", response_model=models.ViewsTold, summary="List the views of figures")
async def analytics_views(platform: CurrentPlatform) -> JSONResponse:
    """The views on searches, items, exploration and feedback, each with its columns."""
    return JSONResponse({"views": [one.as_dict() for one in await platform.analytics_views()]})


@figures_router.get("/analytics/{view}", response_model=models.FiguresTold, summary="Read a view of figures")
async def analytics(
    *,
    platform: CurrentPlatform,
    view: Annotated[str, Path(description="The name of a view.", examples=["poor_queries"])],
    collection: Annotated[str | None, Query(description="Of this collection alone.")] = None,
    since: Annotated[str | None, Query(description=_SINCE, examples=["7d"])] = None,
    until: Annotated[str | None, Query(description="Before that ISO 8601 date or time.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Rows, at most.")] = 1000,
) -> JSONResponse:
    """The rows, most telling first, of a collection or of all, of a period or of all time."""
    begin = None if since is None else age_or_time(since, option="since")
    end = None if until is None else time_of("until", until)
    found = await platform.analytics(view, collection=collection, since=begin, until=end, limit=limit)
    return JSONResponse({"view": found.view, "columns": list(found.columns), "rows": found.as_dicts()})


metrics_router = APIRouter(tags=["health"])


class MetricsClosedError(RefusalError):
    """The service shows no metrics."""

    status = 403

    def __init__(self) -> None:
        super().__init__("metrics are shown to who bears a token; set RETRIEVAL_METRICS_TOKEN where the service runs")


class MetricsTokenError(RefusalError):
    """The metrics need their own token."""

    status = 401

    def __init__(self) -> None:
        super().__init__(
            "the metrics need the token of RETRIEVAL_METRICS_TOKEN, sent as Authorization: Bearer TOKEN",
            headers={"WWW-Authenticate": 'Bearer realm="metrics"'},
        )


@metrics_router.get(
    "/metrics", summary="What Prometheus asks for", response_class=PlainTextResponse, operation_id="metrics"
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
    """Raise ``MetricsClosedError`` where no token is set, ``MetricsTokenError`` for another one or none."""
    if insecure_local:
        return
    if settings.metrics_token is None:
        raise MetricsClosedError
    scheme, _, token = authorization.partition(" ")
    expected = settings.metrics_token.get_secret_value()
    if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), expected.encode()):
        raise MetricsTokenError
