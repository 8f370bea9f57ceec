"""An examination of what the platform could not open: as far as the login gets."""

from __future__ import annotations

from datetime import datetime

import psycopg

from retrieval.adapters.store.installation.examination.installation import (
    Installation,
    connected,
    read_installation,
    read_revision,
)
from retrieval.adapters.store.installation.revisions import SchemaStatus, status_of
from retrieval.adapters.store.installed_sql import Names
from retrieval.domain.diagnosis import Diagnosis, Finding, Severity, diagnosis_of
from retrieval.domain.errors import DatabaseError, RetrievalError
from retrieval.jobs.doctor.checks import Surroundings, server_findings
from retrieval.settings import Settings


async def diagnose_closed(settings: Settings, error: RetrievalError, now: datetime) -> Diagnosis:
    """What can be said where opening the platform raised ``error``; ``now`` is the time of day, in UTC."""
    names = Names(settings.database_schema)
    findings: list[Finding] = []
    if settings.database_url is not None:
        try:
            installation, status = await _read(settings, names)
        except DatabaseError as again:
            error = again
        else:
            where = Surroundings(names=names, pool_size=settings.pool_size, is_embedded=False, now=now)
            findings = list(server_findings(installation, status, where))
    if all(one.severity is not Severity.ERROR for one in findings):
        findings.insert(0, finding_of(error))
    return diagnosis_of(findings, now)


def finding_of(error: RetrievalError) -> Finding:
    """The error as a finding: what happened, and after the first semicolon what to do."""
    found, _, mend = str(error).partition("; ")
    return Finding(check="platform", severity=Severity.ERROR, found=found, mend=mend)


async def _read(settings: Settings, names: Names) -> tuple[Installation, SchemaStatus | None]:
    url = settings.database_url
    async with connected("" if url is None else url.get_secret_value()) as connection:
        installation = await read_installation(connection, names, stalled_seconds=settings.worker_stalled_seconds)
        if not installation.server.has_schema:
            return installation, status_of(names.schema, None)
        try:
            return installation, status_of(names.schema, await read_revision(connection, names))
        except psycopg.errors.InsufficientPrivilege:
            return installation, None
