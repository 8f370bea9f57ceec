"""Recommendations of similar tickets: routes and models."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Body, Depends, Request
from fastapi.responses import Response

from retrieval.apps.tickets import PreviewConfig, RetrievalRequest, RetrievalResponse, RetrievalService, SearchPreview
from retrieval.domain.checks import is_storable
from retrieval.domain.errors import Advice, ConfigurationError, InvalidRequestError, UnknownCollectionError
from retrieval.surfaces.http.caller import ReadPlatform, service_of
from retrieval.surfaces.http.json_bodies import JSONAnswer, JSONBodies
from retrieval.surfaces.http.models import AnswerPart, Sent

SEARCH_EXAMPLE = {
    "title": "Database connection timeout",
    "description": "Users experiencing timeouts during peak hours",
    "domain_filter": "MM",
    "top_k": 10,
    "vector_weight": 0.8,
    "metadata_weight": 0.2,
}


class TicketPreviewRequest(
    Sent,
    strict=False,
    examples=[
        {"title": "Connection timeout", "domain": "MM", "config": {"vector_weight": 0.6, "metadata_weight": 0.4}}
    ],
):
    """A ticket whose similar tickets are ranked under several weightings; the search is not recorded."""

    title: str
    description: str = ""
    domain: str | None = None
    """Only tickets of this domain."""
    config: PreviewConfig | None = None
    """The weights to compare; left out: the service's default and the four presets. A list names presets."""


class TicketsHealth(AnswerPart):
    """The state of the index of tickets."""

    status: str
    """`healthy` or `unhealthy`."""
    component: str
    collection: str
    index_loaded: bool
    total_vectors: int | None = None
    dimension: int | None = None
    pending: int | None = None
    """The number of tickets that wait for their vector."""
    error: str | None = None
    error_type: str | None = None


class TicketsStats(AnswerPart):
    """The contents of the index of tickets."""

    total_vectors: int
    dimension: int | None
    """Null without an embedding space."""
    domain_distribution: dict[str, int]
    """The number of tickets by domain; tickets without a domain are under the empty name."""
    metadata_entries: int


async def _tickets(request: Request, platform: ReadPlatform) -> RetrievalService:
    return service_of(request).tickets(platform)


Tickets = Annotated[RetrievalService, Depends(_tickets)]
"""The ticket service of the caller's tenant."""

router = APIRouter(prefix="/v2/retrieval", tags=["tickets"], route_class=JSONBodies)

Answer = TypeVar("Answer")

_JSON = "application/json"
_UNHEALTHY: dict[int | str, dict[str, Any]] = {
    503: {"model": TicketsHealth, "description": "The tickets cannot be searched"}
}


@router.post("/search", response_model=RetrievalResponse, summary="Find similar tickets")
async def search_tickets(
    tickets: Tickets, body: Annotated[RetrievalRequest, Body(examples=[SEARCH_EXAMPLE])]
) -> Response:
    """Find tickets for a title and description, a text or an embedding; by similarity, priority, time to resolve."""
    with _located(_members_of(body)):
        response = await _or_unknown(tickets.process(body))
    return Response(response.model_dump_json(), media_type=_JSON)


@router.get("/health", response_model=TicketsHealth, responses=_UNHEALTHY, summary="Whether tickets can be found")
async def tickets_health(tickets: Tickets) -> JSONAnswer:
    """200 if the collection exists and has vectors, otherwise 503 with the reason."""
    health = await tickets.health_check()
    if health.get("error_type") not in (None, ConfigurationError.__name__):
        # A message of the database may reveal internals.
        health["error"] = "the collection cannot be read at the moment; try again later"
    return JSONAnswer(health, status_code=200 if health["status"] == "healthy" else 503)


@router.get("/stats", response_model=TicketsStats, summary="Describe the index of tickets")
async def tickets_stats(tickets: Tickets) -> JSONAnswer:
    """The number of vectors, their dimension, and the number of tickets of each domain."""
    return JSONAnswer(await _or_unknown(tickets.get_index_stats()))


@router.post("/preview", response_model=SearchPreview, summary="Compare weightings on a ticket")
async def preview_tickets(tickets: Tickets, body: TicketPreviewRequest) -> Response:
    """Rank one search under each weighting, and explain the moves of tickets. Nothing is recorded."""
    members = {
        "query": (_longer(body.title, body.description),),
        "candidates": ("config", "candidates"),
        "occurred_at": ("config", "as_of"),
        "item_id": ("config", "exclude_ids"),
    }
    with _located(members):
        preview = await _or_unknown(tickets.preview_search(body.title, body.description, body.domain, body.config))
    return Response(preview.model_dump_json(), media_type=_JSON)


_Members = Mapping[str, tuple[str, ...]]


def _members_of(request: RetrievalRequest) -> _Members:
    """The locations in the request of the arguments of the search."""
    is_self = request.exclude_self is not None and all(map(is_storable, request.exclude_ids))
    return {
        "query": ("query_text" if request.query_text else _longer(request.title, request.description),),
        "domain": ("domain_filter",),
        "occurred_at": ("as_of",),
        "item_id": ("exclude_self" if is_self else "exclude_ids",),
        "vector": ("query_embedding",),
    }


def _longer(title: str | None, description: str | None) -> str:
    """The member that a limit on the length of both is exceeded by."""
    return "title" if len(title or "") > len(description or "") else "description"


@contextmanager
def _located(members: _Members) -> Iterator[None]:
    """Point an error of the search at its location in the request."""
    try:
        yield
    except InvalidRequestError as error:
        for step in error.location[:1]:
            error.location = members.get(str(step), (step,))
        raise


async def _or_unknown(answering: Awaitable[Answer]) -> Answer:
    """Report a missing collection to the client, because it is not a fault of the service's settings."""
    try:
        return await answering
    except ConfigurationError as error:
        if isinstance(error.__cause__, UnknownCollectionError):
            raise UnknownCollectionError(error.fact).advising(Advice.MAKE_COLLECTION, name="", file="") from error
        raise
