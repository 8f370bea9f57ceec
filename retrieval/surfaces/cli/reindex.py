"""``retrieval reindex``: indexes and weights made anew."""

from __future__ import annotations

import typer

from retrieval.surfaces.cli.options import CollectionName, Json
from retrieval.surfaces.cli.state import state_of

EXAMPLES = ("retrieval reindex tickets",)


def reindex(context: typer.Context, *, collection: CollectionName, as_json: Json = False) -> None:
    """Make a collection's index, term counts and weights anew.

    Searches go on meanwhile, with what there was. A run that was
    interrupted is completed by running it again.
    """
    from retrieval.jobs.reindex import STEPS
    from retrieval.surfaces.cli.running import run_jobs

    run_jobs(state_of(context), list(STEPS.values()), collection, as_json=as_json)
