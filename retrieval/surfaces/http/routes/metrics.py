"""What Prometheus asks for. It tells of every tenant, so a key of one does not open it."""

from __future__ import annotations

import hmac

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from retrieval.settings import Settings
from retrieval.surfaces.http.refusals import RefusalError
from retrieval.surfaces.http.service import Service

router = APIRouter(tags=["health"])


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


@router.get("/metrics", summary="What Prometheus asks for", response_class=PlainTextResponse, operation_id="metrics")
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
