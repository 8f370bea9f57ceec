"""From hits to tickets, and from tickets to the response. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from retrieval.apps.tickets.asked import Asked
from retrieval.apps.tickets.models import RetrievalResponse, SearchMetadata, SimilarTicket
from retrieval.apps.tickets.ticket_item import DOMAIN, PRIORITY, RESOLUTION, hours_of, resolved_at_of
from retrieval.apps.tickets.weights import PRIORITY_SHARE, TIME_SHARE, UNKNOWN_HOURS
from retrieval.domain.hit import Hit
from retrieval.domain.profile import LegName, Profile
from retrieval.domain.signals.priority import Priority
from retrieval.domain.signals.resolution_time import ResolutionTime
from retrieval.domain.signals.signal import Asked as Question
from retrieval.domain.signals.signal import Facts
from retrieval.domain.signals.vector_similarity import VectorSimilarity

VECTOR = VectorSimilarity.name
WORTH = Priority.name
TIME = ResolutionTime.name


def response_of(hits: Sequence[Hit], asked: Asked, now: datetime, index_total: int) -> RetrievalResponse:
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
