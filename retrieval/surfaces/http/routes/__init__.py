"""The resources of the service, a module each."""

from __future__ import annotations

from fastapi import APIRouter

from retrieval.surfaces.http.routes import health, metrics

ROUTERS: tuple[APIRouter, ...] = (health.router, metrics.router)
"""In the order in which OpenAPI lists them."""
