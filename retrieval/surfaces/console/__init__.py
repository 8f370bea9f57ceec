"""The web console for operators: pages on the same functions as the HTTP routes."""

from __future__ import annotations

from starlette.applications import Starlette

from retrieval.surfaces.console import applications, data, learning, operations, profiles, search
from retrieval.surfaces.console.frame import ConsoleDoor, add_console
from retrieval.surfaces.http.admission import Access

__all__ = ["VIEWS", "ConsoleDoor", "add_views"]

VIEWS = (search, profiles, learning, data, operations, applications)


def add_views(app: Starlette, access: Access) -> None:
    """Add the console's pages under ``/console``."""
    add_console(app, access, [route for view in VIEWS for route in view.ROUTES])
