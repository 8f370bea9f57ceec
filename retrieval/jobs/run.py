"""One run of one job over one collection: alone, and on record."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from retrieval.adapters.embedders.cached import patiently
from retrieval.adapters.store.records.job_runs import INTERRUPTED, begin_run, end_run
from retrieval.adapters.tracing import span
from retrieval.domain.errors import RetrievalError
from retrieval.jobs.registry import Job
from retrieval.jobs.workplace import Advance, StoppedError, Target, Workplace, unheeded

_log = logging.getLogger(__name__)

DONE, FAILED, ELSEWHERE = "done", "failed", "running elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What became of a run."""

    job: str
    collection: str
    outcome: str
    """``done``, ``failed``, ``interrupted`` or ``running elsewhere``."""
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"job": self.job, "collection": self.collection, "outcome": self.outcome, "details": dict(self.details)}


async def run_job(workplace: Workplace, job: Job, target: Target, advance: Advance = unheeded) -> RunReport:
    """Do the job, unless another process is doing it right now. What it raises on purpose is put on record."""
    collection = target.collection
    async with workplace.database.only_one(f"job {job.name} {collection.collection_id}") as alone:
        if not alone:
            return RunReport(job=job.name, collection=collection.name, outcome=ELSEWHERE)
        with patiently(), span("retrieval.job") as traced:
            outcome, details = await _recorded(workplace, job, target, advance)
            if traced is not None:
                traced.set_attributes({"retrieval.job": job.name, "retrieval.outcome": outcome})
                traced.set_attributes(
                    {"retrieval.tenant_id": target.tenant_id, "retrieval.collection": collection.name}
                )
    return RunReport(job=job.name, collection=collection.name, outcome=outcome, details=details)


async def _recorded(workplace: Workplace, job: Job, target: Target, advance: Advance) -> tuple[str, Mapping[str, Any]]:
    where = (workplace.database, target.tenant_id, target.collection.collection_id)
    run_id = await begin_run(*where, job.name)
    try:
        outcome, details = DONE, await job.run(workplace, target, advance)
    except StoppedError:
        outcome, details = INTERRUPTED, {}
    except asyncio.CancelledError:
        with contextlib.suppress(RetrievalError):
            await end_run(*where, run_id, outcome=INTERRUPTED, details={})
        raise
    except RetrievalError as error:
        _log.warning("job %s of %s failed: %s", job.name, target.collection.name, error)
        outcome, details = FAILED, {"error": str(error)}
    except Exception as error:
        await end_run(*where, run_id, outcome=FAILED, details={"error": f"{type(error).__name__}: {error}"})
        raise
    await end_run(*where, run_id, outcome=outcome, details=details)
    return outcome, details
