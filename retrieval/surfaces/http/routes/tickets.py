"""Recommendations of similar tickets: routes and models."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Body
from fastapi.responses import Response
from pydantic import field_validator

from retrieval.apps.tickets import ConfigurationError, PreviewConfig, RetrievalRequest, RetrievalResponse, SearchPreview
from retrieval.domain.api_key import Scope
from retrieval.domain.errors import Advice, InvalidRequestError, UnknownCollectionError
from retrieval.surfaces.http.caller import CurrentTickets, needs
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

ANSWER_EXAMPLE = {
    "similar_tickets": [
        {
            "ticket_id": "MM-42",
            "title": "Connection pool exhausted",
            "description": "The service reached its limit of connections.",
            "similarity_score": 0.888,
            "vector_similarity": 0.92,
            "metadata_score": 0.76,
            "priority": "High",
            "labels": ["Code Fix"],
            "resolution_time_hours": 30.0,
            "domain": "MM",
            "resolution": "A larger pool, and an alarm.",
            "resolution_time_known": True,
        }
    ],
    "search_metadata": {
        "query_domain": "MM",
        "total_found": 1,
        "avg_similarity": 0.888,
        "top_similarity": 0.888,
        "index_total": 300,
    },
    "config_used": {"top_k": 10, "domain_filter": "MM", "vector_weight": 0.8, "metadata_weight": 0.2},
}

PREVIEW_EXAMPLE = {
    "query": "Database connection timeout",
    "domain": "MM",
    "candidates": 1,
    "baseline": "balanced",
    "previews": [
        {
            "weighting": {
                "name": "balanced",
                "vector_weight": 0.7,
                "metadata_weight": 0.3,
                "priority_weights": None,
                "time_normalization_hours": None,
            },
            "tickets": [],
            "entered": [],
            "left": [],
            "summary": "balanced (0.7 similarity, 0.3 metadata): 0 of 1 moved, 0 entered and 0 left",
        }
    ],
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

    @field_validator("config", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        return {"weightings": value} if isinstance(value, list | str) else value


class HealthTold(
    AnswerPart,
    examples=[
        {
            "status": "healthy",
            "component": "retrieval",
            "collection": "tickets",
            "index_loaded": True,
            "total_vectors": 300,
            "dimension": 3072,
            "pending": 0,
        }
    ],
):
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


class StatsTold(
    AnswerPart,
    examples=[
        {
            "total_vectors": 300,
            "dimension": 3072,
            "domain_distribution": {"MM": 120, "CIW": 100, "Specialty": 80},
            "metadata_entries": 300,
        }
    ],
):
    """The contents of the index of tickets."""

    total_vectors: int
    dimension: int | None
    """Null without an embedding space."""
    domain_distribution: dict[str, int]
    """The number of tickets by domain; tickets without a domain are under the empty name."""
    metadata_entries: int


router = APIRouter(prefix="/v2/retrieval", tags=["tickets"], dependencies=[needs(Scope.READ)], route_class=JSONBodies)

Answer = TypeVar("Answer")

_JSON = "application/json"
_UNHEALTHY: dict[int | str, dict[str, Any]] = {
    503: {"model": HealthTold, "description": "The tickets cannot be searched"}
}


def _example_response(example: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    """The example of a response, for the application's models, which have none."""
    return {200: {"content": {_JSON: {"example": example}}}}


@router.post(
    "/search",
    response_model=RetrievalResponse,
    responses=_example_response(ANSWER_EXAMPLE),
    summary="Find similar tickets",
)
async def search_tickets(
    tickets: CurrentTickets, body: Annotated[RetrievalRequest, Body(examples=[SEARCH_EXAMPLE])]
) -> Response:
    """Find tickets for a title and description, a text or an embedding; by similarity, priority, time to resolve."""
    with _placed(_members_of(body)):
        response = await _or_unknown(tickets.process(body))
    return Response(response.model_dump_json(), media_type=_JSON)


@router.get("/health", response_model=HealthTold, responses=_UNHEALTHY, summary="Whether tickets can be found")
async def tickets_health(tickets: CurrentTickets) -> JSONAnswer:
    """200 if the collection exists and has vectors, otherwise 503 with the reason."""
    health = await tickets.health_check()
    if health.get("error_type") not in (None, ConfigurationError.__name__):
        # A message of the database may reveal internals.
        health["error"] = "the collection cannot be read at the moment; try again later"
    return JSONAnswer(health, status_code=200 if health["status"] == "healthy" else 503)


@router.get("/stats", response_model=StatsTold, summary="Describe the index of tickets")
async def tickets_stats(tickets: CurrentTickets) -> JSONAnswer:
    """The number of vectors, their dimension, and the number of tickets of each domain."""
    return JSONAnswer(await _or_unknown(tickets.get_index_stats()))


@router.post(
    "/preview",
    response_model=SearchPreview,
    responses=_example_response(PREVIEW_EXAMPLE),
    summary="Compare weightings on a ticket",
)
async def preview_tickets(tickets: CurrentTickets, body: TicketPreviewRequest) -> Response:
    """Rank one search under each weighting, and explain the moves of tickets. Nothing is recorded."""
    with _placed({"query": _longer(body.title, body.description)}):
        preview = await _or_unknown(tickets.preview_search(body.title, body.description, body.domain, body.config))
    return Response(preview.model_dump_json(), media_type=_JSON)


def _members_of(request: RetrievalRequest) -> dict[str, str]:
    """The places in the request of the arguments of the search."""
    return {
        "query": "query_text" if request.query_text else _longer(request.title, request.description),
        "domain": "domain_filter",
        "occurred_at": "as_of",
        "item_id": "exclude_ids" if request.exclude_ids else "exclude_self",
        "vector": "query_embedding",
    }


def _longer(title: str | None, description: str | None) -> str:
    """The member that a limit on the length of both is exceeded by."""
    return "title" if len(title or "") > len(description or "") else "description"


@contextmanager
def _placed(members: Mapping[str, str]) -> Iterator[None]:
    """Point an error of the search at its place in the request."""
    try:
        yield
    except InvalidRequestError as error:
        error.place = tuple(members.get(str(step), step) for step in error.place[:1])
        raise


async def _or_unknown(answering: Awaitable[Answer]) -> Answer:
    """Report a missing collection to the client, because it is not a fault of the service's settings."""
    try:
        return await answering
    except ConfigurationError as error:
        if isinstance(error.__cause__, UnknownCollectionError):
            raise UnknownCollectionError(error.fact).advising(Advice.MAKE_COLLECTION, name="", file="") from error
        raise
