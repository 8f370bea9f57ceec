"""The resources of the service, one module each."""

from __future__ import annotations

from fastapi import APIRouter

from retrieval.surfaces.http.routes import installation, items, learning, profiles, search, tickets

ROUTERS: tuple[APIRouter, ...] = (
    search.router,
    items.collections_router,
    items.named,
    items.router,
    items.documents_router,
    items.memories_router,
    learning.feedback_router,
    learning.router,
    learning.actors_router,
    search.in_collection,
    search.retrievals_router,
    profiles.router,
    installation.reembedding_router,
    installation.figures_router,
    installation.doctor_router,
    tickets.router,
    installation.health_router,
    installation.metrics_router,
)
"""The routers, in the order in which they are tried and listed by OpenAPI: the most frequent requests first."""
