"""From a request and the configuration to one search of the collection."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retrieval.apps.tickets.config import RetrievalConfig
from retrieval.apps.tickets.errors import ProcessingError
from retrieval.apps.tickets.models import RetrievalRequest
from retrieval.apps.tickets.profile import tickets_profile
from retrieval.apps.tickets.ticket_item import DOMAIN
from retrieval.apps.tickets.weights import NORMALIZATION_HOURS, Weights
from retrieval.domain.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of the collection."""

    words: str
    vector: list[float] | None
    where: dict[str, Any]
    top_k: int
    candidates: int
    """How many of the nearest tickets are scored."""
    profile: Profile
    as_of: datetime | None
    config_used: dict[str, Any]
    """The parameters, as the response tells them."""


def asked_of(request: RetrievalRequest, config: RetrievalConfig) -> Asked:
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
    return Asked(
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
