"""The web console, for the people who run and tune retrieval: pages that call what the HTTP routes call."""

from __future__ import annotations

from starlette.applications import Starlette

from retrieval.surfaces.console import applications, data, learning, operations, profiles, search
from retrieval.surfaces.console.frame import add_console
from retrieval.surfaces.http.admission import Access

VIEWS = (search, profiles, learning, data, operations, applications)


def add_views(app: Starlette, access: Access) -> None:
    """Answer under ``/console``."""
    add_console(app, access, [route for view in VIEWS for route in view.ROUTES])
