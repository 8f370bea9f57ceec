"""The reference of the figures: the catalogue's descriptions, as in the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from retrieval.domain.records.analytics import AnalyticsView


def mark(view: AnalyticsView) -> str:
    """The comment above a view's reference."""
    return f"<!-- view: {view.name} -->\n"


def reference(view: AnalyticsView) -> str:
    """Its sentence and its columns, as Markdown."""
    arguments = "(collection, since, until)" if view.is_function else ""
    rows = [f"| `{column.name}` | {column.type} | {column.about} |" for column in view.columns]
    lines = [
        f"{mark(view)}`analytics_{view.name}{arguments}`: {view.about}",
        "",
        "| column | type | |",
        "|---|---|---|",
    ]
    return "\n".join([*lines, *rows]) + "\n"


def written_into(page: str, views: Sequence[AnalyticsView]) -> str:
    """The page with every view's reference as the catalogue has it, in place of what stood there."""
    for view in views:
        before, marker, after = page.partition(mark(view))
        if marker:
            rest = after.lstrip("\n")
            while rest.startswith(("`analytics_", "|")):
                rest = rest.partition("\n")[2].lstrip("\n")
            page = f"{before}{reference(view)}\n{rest}"
    return page
