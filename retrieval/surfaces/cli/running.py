"""A job run now, in this process, with its progress shown."""

from __future__ import annotations

import typer

from retrieval.adapters.store.items.collections import all_collections
from retrieval.jobs.registry import Job
from retrieval.jobs.run import FAILED as RUN_FAILED
from retrieval.jobs.run import RunReport, run_job
from retrieval.jobs.workplace import Target
from retrieval.platform import Platform
from retrieval.surfaces.cli.errors import FAILED
from retrieval.surfaces.cli.output import console, print_json
from retrieval.surfaces.cli.progress import Step, progress
from retrieval.surfaces.cli.run import run
from retrieval.surfaces.cli.state import State
from retrieval.surfaces.cli.worker import show

INTERRUPTED = "interrupted; run the same command again to continue"


def run_one_job(state: State, job: Job, name: str | None, *, as_json: bool) -> None:
    """Run the job over one collection, or over all of the tenant's; exits with 1 if it failed for one."""

    async def work(platform: Platform) -> list[RunReport]:
        return [await _run(platform, job, target) for target in await _targets(platform, name)]

    reports = run(state, work, when_interrupted=INTERRUPTED)
    if as_json:
        print_json([report.as_dict() for report in reports])
    else:
        for report in reports:
            show(report)
        if not reports:
            console().print("no collections yet; make one with: retrieval ingest NAME FILE", soft_wrap=True)
    if any(report.outcome == RUN_FAILED for report in reports):
        raise typer.Exit(FAILED)


async def _run(platform: Platform, job: Job, target: Target) -> RunReport:
    with progress(f"{job.name} {target.collection.name}", job.noun) as update:
        return await run_job(platform.workplace, job, target, lambda done: update(Step(done, None, done)))


async def _targets(platform: Platform, name: str | None) -> list[Target]:
    if name is not None:
        collection = await platform.collection(name, create=False)
        return [Target(platform.tenant_id, await collection.refresh())]
    return [Target(platform.tenant_id, one) for one in await all_collections(platform.database, platform.tenant_id)]
