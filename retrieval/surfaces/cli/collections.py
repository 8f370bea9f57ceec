"""``retrieval collections``: what there is to search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from retrieval.surfaces.cli.options import Json
from retrieval.surfaces.cli.state import state_of

if TYPE_CHECKING:
    from rich.table import Table

    from retrieval.collection import CollectionInfo
    from retrieval.platform import Platform

EXAMPLES = ("retrieval collections --json",)


def collections(context: typer.Context, *, as_json: Json = False) -> None:
    """List the collections with their size and settings.

    Pending items wait for their vector: words find them already. Ingest them again to embed them.
    """
    from retrieval.surfaces.cli.output import console, print_json
    from retrieval.surfaces.cli.run import run

    state = state_of(context)
    found = run(state, _infos)
    if as_json:
        print_json([info.as_dict() for info in found])
    elif found:
        console().print(collections_table(found))
    else:
        console().print("no collections yet; make one with: retrieval ingest NAME FILE", soft_wrap=True)


def collections_table(found: list[CollectionInfo]) -> Table:
    """A row a collection."""
    from retrieval.surfaces.cli.output import table

    return table(
        ["name", "documents", "pending", "space", "language", "profile", "HNSW"],
        (
            (
                info.name,
                info.documents,
                info.pending,
                info.space,
                info.text_search_config,
                f"v{info.profile_version}",
                info.has_hnsw,
            )
            for info in found
        ),
    )


async def _infos(platform: Platform) -> list[CollectionInfo]:
    return [await collection.info() for collection in await platform.collections()]
