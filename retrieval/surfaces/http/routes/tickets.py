"""Tickets: similar historical ones for a new one, and how their index is."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Body
from fastapi.responses import JSONResponse, Response

from retrieval.apps.tickets import ConfigurationError, RetrievalRequest, RetrievalResponse, SearchPreview
from retrieval.domain.api_key import Scope
from retrieval.domain.errors import Advice, InvalidRequestError, UnknownCollectionError
from retrieval.surfaces.http.caller import CurrentTickets, needs
from retrieval.surfaces.http.json_bodies import JSONBodies
from retrieval.surfaces.http.models import tickets as models

router = APIRouter(prefix="/v2/retrieval", tags=["tickets"], dependencies=[needs(Scope.READ)], route_class=JSONBodies)

Answer = TypeVar("Answer")

_JSON = "application/json"
_UNHEALTHY: dict[int | str, dict[str, Any]] = {
    503: {"model": models.HealthTold, "description": "It cannot be searched"}
}


def _shown(example: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    """How the application's own models look: they show no example themselves."""
    return {200: {"content": {_JSON: {"example": example}}}}


@router.post(
    "/search",
    response_model=RetrievalResponse,
    responses=_shown(models.ANSWER_EXAMPLE),
    summary="Find similar tickets",
)
async def search_tickets(
    tickets: CurrentTickets, body: Annotated[RetrievalRequest, Body(examples=[models.SEARCH_EXAMPLE])]
) -> Response:
    """Finds tickets for a title and description, a text or an embedding; by similarity, priority, time to resolve."""
    with _named(_members_of(body)):
        found = await _or_unknown(tickets.process(body))
    return Response(found.model_dump_json(), media_type=_JSON)


@router.get("/health", response_model=models.HealthTold, responses=_UNHEALTHY, summary="Whether tickets can be found")
async def tickets_health(tickets: CurrentTickets) -> JSONResponse:
    """200 where the collection is there and holds vectors, else 503 with the reason."""
    found = await tickets.health_check()
    if found.get("error_type") not in (None, ConfigurationError.__name__):
        # What a database says may tell of the inside.
        found["error"] = "the collection cannot be read at the moment; try again later"
    return JSONResponse(found, status_code=200 if found["status"] == "healthy" else 503)


@router.get("/stats", response_model=models.StatsTold, summary="What is in the index of tickets")
async def tickets_stats(tickets: CurrentTickets) -> JSONResponse:
    """Vectors, their dimension, and how many tickets each domain has; counted now."""
    return JSONResponse(await _or_unknown(tickets.get_index_stats()))


@router.post(
    "/preview",
    response_model=SearchPreview,
    responses=_shown(models.PREVIEW_EXAMPLE),
    summary="Compare weightings on a ticket",
)
async def preview_tickets(tickets: CurrentTickets, body: models.TicketPreviewRequest) -> Response:
    """One search whose candidates are ranked under each weighting: what moves, and why. Nothing is recorded."""
    with _named({"query": "description"}):
        found = await _or_unknown(tickets.preview_search(body.title, body.description, body.domain, body.config))
    return Response(found.model_dump_json(), media_type=_JSON)


def _members_of(request: RetrievalRequest) -> dict[str, str]:
    """The places, in the request, of the arguments of the search that is made of it."""
    return {
        "query": "description" if request.query_text is None else "query_text",
        "domain": "domain_filter",
        "occurred_at": "as_of",
        "item_id": "exclude_ids" if request.exclude_ids else "exclude_self",
        "vector": "query_embedding",
    }


@contextmanager
def _named(members: Mapping[str, str]) -> Iterator[None]:
    """An error of the search lies where the request says what it is about."""
    try:
        yield
    except InvalidRequestError as error:
        error.place = tuple(members.get(str(step), step) for step in error.place[:1])
        raise


async def _or_unknown(answering: Awaitable[Answer]) -> Answer:
    """A client is told of a collection that is not there; it is no fault of the service's settings."""
    try:
        return await answering
    except ConfigurationError as error:
        if isinstance(error.__cause__, UnknownCollectionError):
            raise UnknownCollectionError(error.fact).advising(Advice.MAKE_COLLECTION, name="", file="") from error
        raise
