"""The resources of the service, one module each."""

from __future__ import annotations

from fastapi import APIRouter

from retrieval.surfaces.http.routes import (
    collections,
    documents,
    installation,
    items,
    learning,
    memories,
    profiles,
    search,
    tickets,
)

ROUTERS: tuple[APIRouter, ...] = (
    search.router,
    collections.router,
    collections.named,
    items.router,
    documents.router,
    memories.router,
    learning.feedback_router,
    learning.router,
    learning.actors_router,
    search.in_collection,
    search.retrievals_router,
    profiles.router,
    installation.reembedding_router,
    installation.figures_router,
    tickets.router,
    installation.health_router,
)
"""The routers, in the order in which they are tried and listed by OpenAPI: the most frequent requests first."""
