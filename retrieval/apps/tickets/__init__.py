"""Tickets: similar historical tickets for a new one, by meaning, priority and how soon they were resolved.

from retrieval.apps.tickets import RetrievalRequest, RetrievalService
async with RetrievalService() as service:
response = await service.process(RetrievalRequest(title="Login fails", domain_filter="MM"))
"""

from __future__ import annotations

from retrieval.apps.tickets.answers import rescored
from retrieval.apps.tickets.models import (
    ALIASES,
    PRESETS,
    MovedTicket,
    PreviewConfig,
    PriorityWeights,
    ProcessingError,
    RetrievalConfig,
    RetrievalRequest,
    RetrievalResponse,
    SearchMetadata,
    SearchPreview,
    SimilarTicket,
    Weighting,
    WeightingPreview,
    tickets_profile,
)
from retrieval.apps.tickets.service import RetrievalService
from retrieval.apps.tickets.ticket_item import TICKET_FILTERABLE, ticket_item
from retrieval.domain.errors import ConfigurationError

__all__ = [
    "ALIASES", "PRESETS", "TICKET_FILTERABLE", "ConfigurationError", "MovedTicket", "PreviewConfig", "PriorityWeights",
    "ProcessingError", "RetrievalConfig", "RetrievalRequest", "RetrievalResponse", "RetrievalService", "SearchMetadata",
    "SearchPreview", "SimilarTicket", "Weighting", "WeightingPreview", "rescored", "ticket_item", "tickets_profile",
]  # fmt: skip
