"""The schedule of jobs: their names, and their cron expressions unless settings give others."""

from __future__ import annotations

from collections.abc import Mapping

OFF = "off"
"""The value in place of a cron expression of a job that runs only on demand."""

DEFAULT_SCHEDULE: Mapping[str, str] = {
    "embed": "*/5 * * * *",
    "reembed": "* * * * *",
    "neighbours": "*/15 * * * *",
    "indexes": "*/10 * * * *",
    "recall": "17 * * * *",
    "weights": "37 * * * *",
    "statistics": "7 3 * * *",
    "clusters": "47 * * * *",
    "learn": "57 * * * *",
    "expire": "*/5 * * * *",
    "months": "47 3 * * *",
    "arms": "57 3 * * *",
    "prune": "27 3 * * *",
    "reindex": OFF,
    "doctor": OFF,
}
"""Cron expressions by job, in UTC, or ``off``. A frequent job costs one statement where there is nothing to do."""


def schedule(changes: Mapping[str, str]) -> dict[str, str]:
    """The cron expression of every scheduled job, by name: the defaults with the changes."""
    return {job: cron for job, cron in {**DEFAULT_SCHEDULE, **changes}.items() if cron != OFF}
