"""The resources of the service, a module each."""

from __future__ import annotations

from fastapi import APIRouter

from retrieval.surfaces.http.routes import health

ROUTERS: tuple[APIRouter, ...] = (health.router,)
"""In the order in which OpenAPI lists them."""
