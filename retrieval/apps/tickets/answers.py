"""Searches and responses of tickets, the values of their signals, and rankings under other weights. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Real
from statistics import fmean
from typing import Any

from retrieval.apps.tickets import models
from retrieval.apps.tickets.models import MovedTicket, ProcessingError, RetrievalRequest, SimilarTicket
from retrieval.apps.tickets.ticket_item import DOMAIN, PRIORITY, RESOLUTION, RESOLVED_AT, hours_of, typed_attributes
from retrieval.domain.checks import checked_list, checked_positive, is_number, written
from retrieval.domain.search.hit import Hit
from retrieval.domain.search.profile import LegName, Profile
from retrieval.domain.search.signals import (
    Facts,
    KnownHours,
    Priority,
    Question,
    ResolutionTime,
    VectorSimilarity,
    resolved_at_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketSearch:
    """The search of the collection."""

    words: str
    vector: list[float] | None
    where: dict[str, Any]
    top_k: int
    candidates: int
    profile: Profile
    as_of: datetime | None
    config_used: dict[str, Any]


def ticket_search(request: RetrievalRequest, config: models.RetrievalConfig) -> TicketSearch:
    """The search of a request; options that it does not set come from the configuration.

    Raises ``ProcessingError`` if there is nothing to search for, and if ``candidates`` is less than ``top_k``.
    """
    if request.query_embedding is None and not request.text:
        raise ProcessingError("Either query_embedding, query_text, or title/description required")
    fields_set = request.model_fields_set
    top_k = request.top_k if "top_k" in fields_set else config.default_top_k
    candidates = top_k if request.candidates is None else request.candidates
    if candidates < top_k:
        raise ProcessingError(
            f"candidates is {candidates} and top_k {top_k}: only scored tickets can be found; give at least {top_k}"
        ).at("candidates")
    weights = request.weights if fields_set & {"vector_weight", "metadata_weight"} else config.weights
    is_timed = "time_normalization_hours" in fields_set
    hours = request.time_normalization_hours if is_timed else config.default_time_normalization_hours
    return TicketSearch(
        words=request.text,
        vector=request.query_embedding,
        where=_where(request),
        top_k=top_k,
        candidates=candidates,
        profile=models.tickets_profile(
            *weights, request.priority_weights, hours, candidates=candidates, known=known_hours(request.as_of)
        ),
        as_of=request.as_of,
        config_used=_config_used(request, top_k, weights, hours),
    )


def known_hours(as_of: datetime | None) -> KnownHours:
    """The rule of a search: all stored hours, or with ``as_of`` those of tickets that were resolved by then."""
    return KnownHours.ALWAYS if as_of is None else KnownHours.IF_RESOLVED


def _where(request: RetrievalRequest) -> dict[str, Any]:
    where: dict[str, Any] = {}
    if domain := (request.domain_filter or "").strip():
        where[DOMAIN] = domain
    if request.as_of is not None:
        where["occurred_at"] = {"lt": request.as_of}
    excluded_ids = [*request.exclude_ids, *([request.exclude_self] if request.exclude_self is not None else [])]
    if excluded_ids:
        where["item_id"] = {"nin": list(dict.fromkeys(excluded_ids))}
    return where


_ALSO_USED = ("candidates", "preset", "priority_weights", "as_of", "exclude_ids", "exclude_self")


def _config_used(request: RetrievalRequest, top_k: int, weights: models.Weights, hours: float) -> dict[str, Any]:
    used: dict[str, Any] = {
        "top_k": top_k,
        "domain_filter": request.domain_filter,
        "vector_weight": weights.vector,
        "metadata_weight": weights.metadata,
    }
    if hours != models.NORMALIZATION_HOURS:
        used["time_normalization_hours"] = hours
    more_fields = request.model_dump(mode="json", include=set(_ALSO_USED), exclude_unset=True, exclude_none=True)
    return used | more_fields


VECTOR = VectorSimilarity.name
WORTH = Priority.name
TIME = ResolutionTime.name


def response_of(hits: Sequence[Hit], search: TicketSearch, index_total: int) -> models.RetrievalResponse:
    """The response to a search."""
    as_of = search.as_of
    tickets = [similar_ticket(hit, hit.score, values_of(hit, search.profile, as_of), as_of) for hit in hits]
    return models.RetrievalResponse(
        similar_tickets=tickets,
        search_metadata=metadata_of(tickets, search.where.get(DOMAIN), index_total),
        config_used=search.config_used,
    )


def metadata_of(tickets: Sequence[SimilarTicket], domain: str | None, index_total: int) -> models.SearchMetadata:
    """The metadata of a search that found these tickets."""
    scores = [ticket.similarity_score for ticket in tickets]
    return models.SearchMetadata(
        query_domain=domain,
        total_found=len(tickets),
        avg_similarity=fmean(scores) if scores else 0.0,
        top_similarity=max(scores, default=0.0),
        index_total=index_total,
    )


def values_of(hit: Hit, profile: Profile, as_of: datetime | None) -> dict[str, float]:
    """The value of each signal of the profile, 0 to 1, by name, including the signals of weight 0."""
    parts = {part.leg: part.raw_score for part in hit.explanation.contributions}
    cosine = parts.get(VECTOR, parts.get(LegName.DENSE.value))
    return _values(Facts(attributes=hit.attributes, cosine=cosine, happened_at=hit.occurred_at), profile, as_of)


_ANY_TIME = datetime.max.replace(tzinfo=UTC)


def _values(facts: Facts, profile: Profile, as_of: datetime | None = None) -> dict[str, float]:
    question = Question(now=as_of or _ANY_TIME)
    return {signal.key: signal.value(facts, question) for signal in profile.signals}


def similar_ticket(hit: Hit, score: float, values: Mapping[str, float], as_of: datetime | None) -> SimilarTicket:
    """The ticket of a hit, with its score and the signals' values.

    ``as_of``: hours and resolution are given only for a ticket that was resolved by then.
    """
    attributes, stored_hours = hit.attributes, hours_of(hit.attributes)
    resolved_at = resolved_at_of(hit.occurred_at, attributes.get(RESOLVED_AT), stored_hours)
    is_known = as_of is None or (resolved_at is not None and resolved_at <= as_of)
    hours = stored_hours if is_known else None
    return SimilarTicket(
        ticket_id=hit.item_id,
        title=hit.title,
        description=hit.body,
        similarity_score=score,
        vector_similarity=values.get(VECTOR, 0.0),
        metadata_score=_metadata_score(values),
        priority=_text(attributes, PRIORITY) or "",
        labels=list(hit.tags) or _label_list(attributes.get("labels")),
        resolution_time_hours=models.UNKNOWN_HOURS if hours is None else hours,
        resolution_time_known=hours is not None,
        domain=_text(attributes, DOMAIN) or "",
        resolution=_text(attributes, RESOLUTION) if is_known else None,
    )


def _text(attributes: Mapping[str, Any], name: str) -> str | None:
    value = attributes.get(name)
    return None if value is None else str(value)


def _label_list(labels: object) -> list[str]:
    if isinstance(labels, str):
        return [labels]
    return [str(label) for label in labels] if isinstance(labels, Sequence) else []


@dataclass(frozen=True, slots=True)
class RankedTicket:
    """A candidate ranked by one weighting."""

    ticket: SimilarTicket
    rank: int
    """The rank, from 1."""
    contributions: dict[str, float]
    """The part of each signal in the score, by name."""


def rank_by_weights(hits: Sequence[Hit], profile: Profile, as_of: datetime | None) -> list[RankedTicket]:
    """The candidates ranked by the profile's signals, best first; equal scores by ticket id."""
    scored: list[tuple[SimilarTicket, dict[str, float]]] = []
    for hit in hits:
        values = values_of(hit, profile, as_of)
        parts = _contributions(values, profile)
        scored.append((similar_ticket(hit, sum(parts.values()), values, as_of), parts))
    scored.sort(key=lambda entry: (-entry[0].similarity_score, entry[0].ticket_id))
    return [RankedTicket(ticket, rank, parts) for rank, (ticket, parts) in enumerate(scored, 1)]


def _contributions(values: Mapping[str, float], profile: Profile) -> dict[str, float]:
    """The part of each signal in the score, by name, in the order in which a search adds them up."""
    return {name: profile.weights[name] * value for name, value in sorted(values.items())}


def _metadata_score(values: Mapping[str, float]) -> float:
    return models.PRIORITY_SHARE * values.get(WORTH, 0.0) + models.TIME_SHARE * values.get(TIME, 0.0)


def rescored(
    tickets: Sequence[Mapping[str, Any]],
    vector_weight: float | None = None,
    metadata_weight: float | None = None,
    time_normalization_hours: float = models.NORMALIZATION_HOURS,
    priority_weights: models.PriorityWeights | Mapping[str, float] | None = None,
) -> list[dict[str, Any]]:
    """The tickets with ``similarity_score`` and ``metadata_score`` by ``tickets_profile``, the highest score first.

    A ticket has a ``vector_similarity``, the cosine from -1 to 1 (negative counts as 0), and may have a ``priority``
    and ``resolution_time_hours``. Raises ``ProcessingError`` for a ticket without a similarity in that range and for
    ``time_normalization_hours`` that are not above 0, and what ``typed_attributes`` and ``tickets_profile`` raise.
    """
    checked_positive("time_normalization_hours", time_normalization_hours, "100", error=ProcessingError)
    profile = models.tickets_profile(
        vector_weight, metadata_weight, priority_weights, time_normalization_hours, known=KnownHours.ALWAYS
    )
    each = checked_list("tickets", tickets, '[{"vector_similarity": 0.8}]')
    scored: list[dict[str, Any]] = []
    for number, ticket in enumerate(each, 1):
        cosine = _cosine(ticket, number)
        facts = Facts(attributes=typed_attributes(ticket, str(ticket.get("ticket_id", number))), cosine=cosine)
        values = _values(facts, profile)
        score = sum(_contributions(values, profile).values())
        scored.append({**ticket, "similarity_score": score, "metadata_score": _metadata_score(values)})
    return sorted(scored, key=lambda entry: (-entry["similarity_score"], str(entry.get("ticket_id", ""))))


COSINE_MAX = 1.001
"""The largest cosine of vectors that were rounded to half precision."""


def _cosine(ticket: Mapping[str, Any], number: int) -> float:
    cosine = ticket.get("vector_similarity") if isinstance(ticket, Mapping) else None
    if isinstance(cosine, Real) and not isinstance(cosine, int):
        cosine = float(cosine)  # of NumPy too
    if not is_number(cosine, -COSINE_MAX, COSINE_MAX):
        name = ticket.get("ticket_id", number) if isinstance(ticket, Mapping) else number
        raise ProcessingError(
            f"ticket {written(name)}: {VECTOR} is {written(cosine)}; it must be a number from -1 to 1"
        )
    return float(cosine)


_NAMES = {VECTOR: "similarity", WORTH: "priority", TIME: "resolution time"}
_NOTHING = 5e-4
"""The least change that counts: three decimal digits do not show a smaller one."""


def compare_rankings(
    weighting: models.Weighting, ranked: Sequence[RankedTicket], before: Sequence[RankedTicket], top_k: int
) -> models.WeightingPreview:
    """Compares the first page of ``ranked`` with that of ``before``: the same candidates, best first."""
    later = {candidate.ticket.ticket_id: candidate for candidate in ranked}
    earlier = {candidate.ticket.ticket_id: candidate for candidate in before}
    page, page_before = list(later)[:top_k], list(earlier)[:top_k]
    both = {*page, *page_before}
    changes = {
        name: {part: value - earlier[name].contributions[part] for part, value in now.contributions.items()}
        for name, now in later.items()
        if name in both
    }
    average = {part: fmean(change[part] for change in changes.values()) for part in _NAMES} if changes else {}
    moved = {name: _moved(later[name], earlier[name], change, average) for name, change in changes.items()}
    tickets = [moved[name] for name in page]
    left = [moved[name] for name in page_before if name not in page]
    entered = [name for name in page if name not in page_before]
    weights = f"{weighting.name} ({weighting.vector_weight:g} similarity, {weighting.metadata_weight:g} metadata)"
    numbers = f"{sum(ticket.moved != 0 for ticket in tickets)} of {len(tickets)} moved"
    return models.WeightingPreview(
        weighting=weighting,
        tickets=tickets,
        entered=entered,
        left=left,
        summary=f"{weights}: {numbers}, {len(entered)} entered and {len(left)} left",
    )


def _moved(
    now: RankedTicket, before: RankedTicket, changes: dict[str, float], average: Mapping[str, float]
) -> MovedTicket:
    against = {name: change - average[name] for name, change in changes.items()}
    moved = before.rank - now.rank
    return MovedTicket(
        ticket=now.ticket,
        rank=now.rank,
        rank_before=before.rank,
        moved=moved,
        contributions=now.contributions,
        changes=changes,
        against_others=against,
        why=_why(now, before, changes, against),
    )


def _why(now: RankedTicket, before: RankedTicket, changes: Mapping[str, float], against: Mapping[str, float]) -> str:
    """``up 3, from 4 to 1: priority adds 0.300 (+0.120; on average +0.050)``: the strongest reason first."""
    moved = before.rank - now.rank
    if moved == 0:
        return f"stays at {now.rank}"
    sign = 1 if moved > 0 else -1
    order = sorted(against, key=lambda name: -sign * against[name])
    reasons = [name for name in order if sign * against[name] > _NOTHING]
    head = f"{'up' if moved > 0 else 'down'} {abs(moved)}, from {before.rank} to {now.rank}"
    reason_texts = [
        f"{_NAMES[name]} adds {now.contributions[name]:.3f} ({changes[name]:+.3f}; "
        f"on average {changes[name] - against[name]:+.3f})"
        for name in reasons
    ]
    return f"{head}: {', '.join(reason_texts)}" if reason_texts else f"{head}: others changed more"
