"""``retrieval reindex``: indexes and weights made anew."""

from __future__ import annotations

import typer

from retrieval.surfaces.cli.options import CollectionName, Json
from retrieval.surfaces.cli.state import state_of

EXAMPLES = ("retrieval reindex tickets",)


def reindex(context: typer.Context, *, collection: CollectionName, as_json: Json = False) -> None:
    """Make a collection's index, term counts and weights anew.

    Searches go on meanwhile, with what there was. A run that was
    interrupted is completed by running it again. A worker does it regularly
    where RETRIEVAL_JOBS_SCHEDULE says when.
    """
    from retrieval.jobs.registry import job_named
    from retrieval.surfaces.cli.running import run_one_job

    run_one_job(state_of(context), job_named("reindex"), collection, as_json=as_json)
