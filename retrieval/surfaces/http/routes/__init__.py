"""The resources of the service, a module each."""

from __future__ import annotations

from fastapi import APIRouter

from retrieval.surfaces.http.routes import (
    actors,
    collections,
    doctor,
    feedback,
    figures,
    health,
    items,
    learning,
    metrics,
    profiles,
    retrievals,
    search,
    tickets,
)

ROUTERS: tuple[APIRouter, ...] = (
    search.router,
    collections.router,
    collections.named,
    items.router,
    feedback.router,
    learning.router,
    actors.router,
    retrievals.in_collection,
    retrievals.router,
    profiles.router,
    figures.router,
    doctor.router,
    tickets.router,
    health.router,
    metrics.router,
)
"""In the order in which they are tried, and OpenAPI lists them: what is asked most often comes first."""
