"""Conversions: a request becomes a search, and hits become the response. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retrieval.apps.tickets.config import RetrievalConfig
from retrieval.apps.tickets.errors import ProcessingError
from retrieval.apps.tickets.models import RetrievalRequest, RetrievalResponse, SearchMetadata, SimilarTicket
from retrieval.apps.tickets.profile import tickets_profile
from retrieval.apps.tickets.ticket_item import DOMAIN, PRIORITY, RESOLUTION, hours_of, resolved_at_of
from retrieval.apps.tickets.weights import NORMALIZATION_HOURS, PRIORITY_SHARE, TIME_SHARE, UNKNOWN_HOURS, Weights
from retrieval.domain.search.hit import Hit
from retrieval.domain.search.profile import LegName, Profile
from retrieval.domain.search.signal import Facts, Question
from retrieval.domain.search.signals import Priority, ResolutionTime, VectorSimilarity


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketSearch:
    """The search of the collection."""

    words: str
    vector: list[float] | None
    where: dict[str, Any]
    top_k: int
    candidates: int
    """The number of the nearest tickets that are scored."""
    profile: Profile
    as_of: datetime | None
    config_used: dict[str, Any]
    """The parameters, as the response tells them."""


def asked_of(request: RetrievalRequest, config: RetrievalConfig) -> TicketSearch:
    """The search that a request means; what it does not say is the configuration's.

    Raises ``ProcessingError`` when there is nothing to search for, or fewer tickets are to be scored than found.
    """
    if request.query_embedding is None and not request.text:
        raise ProcessingError("Either query_embedding, query_text, or title/description required")
    given = request.model_fields_set
    top_k = request.top_k if "top_k" in given else config.default_top_k
    candidates = top_k if request.candidates is None else request.candidates
    if candidates < top_k:
        error = ProcessingError(
            f"candidates is {candidates} and top_k {top_k}: what is not scored cannot be found; give at least {top_k}"
        )
        error.place = ("candidates",)
        raise error
    weights = request.weights if given & {"vector_weight", "metadata_weight"} else config.weights
    is_timed = "time_normalization_hours" in given
    hours = request.time_normalization_hours if is_timed else config.default_time_normalization_hours
    return TicketSearch(
        words=request.text,
        vector=request.query_embedding,
        where=_where(request),
        top_k=top_k,
        candidates=candidates,
        profile=tickets_profile(*weights, request.priority_weights, hours, candidates=candidates),
        as_of=request.as_of,
        config_used=_used(request, top_k, weights, hours),
    )


def _where(request: RetrievalRequest) -> dict[str, Any]:
    where: dict[str, Any] = {}
    if request.domain_filter:
        where[DOMAIN] = request.domain_filter
    if request.as_of is not None:
        where["occurred_at"] = {"lt": request.as_of}
    left_out = [*request.exclude_ids, *([request.exclude_self] if request.exclude_self is not None else [])]
    if left_out:
        where["item_id"] = {"nin": list(dict.fromkeys(left_out))}
    return where


_ALSO_USED = ("candidates", "preset", "priority_weights", "as_of", "exclude_ids", "exclude_self")


def _used(request: RetrievalRequest, top_k: int, weights: Weights, hours: float) -> dict[str, Any]:
    used: dict[str, Any] = {
        "top_k": top_k,
        "domain_filter": request.domain_filter,
        "vector_weight": weights.vector,
        "metadata_weight": weights.metadata,
    }
    if hours != NORMALIZATION_HOURS:
        used["time_normalization_hours"] = hours
    said = request.model_dump(mode="json", include=set(_ALSO_USED), exclude_unset=True, exclude_none=True)
    return used | said


VECTOR = VectorSimilarity.name
WORTH = Priority.name
TIME = ResolutionTime.name


def response_of(hits: Sequence[Hit], asked: TicketSearch, now: datetime, index_total: int) -> RetrievalResponse:
    """The response to a search; ``now`` is the moment that its signals took as now."""
    moment = Question(now=now)
    tickets = [similar_ticket(hit, hit.score, values_of(hit, asked.profile, moment), asked.as_of) for hit in hits]
    scores = [ticket.similarity_score for ticket in tickets]
    return RetrievalResponse(
        similar_tickets=tickets,
        search_metadata=SearchMetadata(
            query_domain=asked.where.get(DOMAIN),
            total_found=len(tickets),
            avg_similarity=sum(scores) / len(scores) if scores else 0.0,
            top_similarity=max(scores, default=0.0),
            index_total=index_total,
        ),
        config_used=asked.config_used,
    )


def values_of(hit: Hit, profile: Profile, moment: Question) -> dict[str, float]:
    """The value of each of the profile's signals, 0 to 1, by name; those of weight 0 too, which no hit explains."""
    facts = Facts(attributes=hit.attributes, cosine=cosine_of(hit))
    return {signal.key: signal.value(facts, moment) for signal in profile.signals}


def cosine_of(hit: Hit) -> float | None:
    """The cosine of its vector with the query's, as the search found it."""
    parts = {part.leg: part.raw_score for part in hit.explanation.contributions}
    return parts.get(VECTOR, parts.get(LegName.DENSE.value))


def similar_ticket(hit: Hit, score: float, values: Mapping[str, float], as_of: datetime | None) -> SimilarTicket:
    """The ticket of a hit, with its score and the signals' values.

    ``as_of``: hours and resolution are told only of one that is known to have been resolved by then.
    """
    attributes = hit.attributes
    resolved_at = resolved_at_of(hit.occurred_at, attributes)
    is_known = as_of is None or (resolved_at is not None and resolved_at <= as_of)
    hours = hours_of(attributes) if is_known else None
    return SimilarTicket(
        ticket_id=hit.item_id,
        title=hit.title,
        description=hit.body,
        similarity_score=score,
        vector_similarity=values.get(VECTOR, 0.0),
        metadata_score=PRIORITY_SHARE * values.get(WORTH, 0.0) + TIME_SHARE * values.get(TIME, 0.0),
        priority=_text(attributes, PRIORITY) or "",
        labels=list(hit.tags) or _listed(attributes.get("labels")),
        resolution_time_hours=UNKNOWN_HOURS if hours is None else hours,
        resolution_time_known=hours is not None,
        domain=_text(attributes, DOMAIN) or "",
        resolution=_text(attributes, RESOLUTION) if is_known else None,
    )


def _text(attributes: Mapping[str, Any], name: str) -> str | None:
    value = attributes.get(name)
    return None if value is None else str(value)


def _listed(labels: object) -> list[str]:
    if isinstance(labels, str):
        return [labels]
    return [str(label) for label in labels] if isinstance(labels, Sequence) else []
