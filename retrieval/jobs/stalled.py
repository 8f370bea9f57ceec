"""Jobs whose worker gave no more sign of life are taken up again."""

from __future__ import annotations

import logging

from procrastinate import App
from procrastinate.exceptions import ConnectorException, UniqueViolation
from procrastinate.jobs import Status

_log = logging.getLogger(__name__)


async def take_up_stalled(app: App, seconds: float) -> int:
    """Put jobs back into the queue whose worker was last heard of so long ago; gives how many.

    Where the same job waits there anew, that one stands for both: the old one is given up, or it would keep the lock
    for which the new one waits.
    """
    taken = 0
    for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=seconds):
        try:
            await app.job_manager.retry_job(job)
        except UniqueViolation:
            await app.job_manager.finish_job(job, Status.ABORTED, delete_job=True)
        except ConnectorException as error:
            _log.info("job %s was taken up by another worker: %s", job.id, error)
            continue
        _log.warning("job %s is taken up again: its worker gave no sign of life", job.call_string)
        taken += 1
    return taken
