"""Read the facts and check them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from retrieval.adapters.store.installation.examination.collection_state import TenantState, read_tenant
from retrieval.adapters.store.installation.examination.installation import Installation, read_installation
from retrieval.adapters.store.installation.revisions import status_of
from retrieval.adapters.store.installed_sql import quote_identifier
from retrieval.adapters.store.items.collections import all_collections
from retrieval.domain.diagnosis import Diagnosis, Finding, Severity, diagnosis_of
from retrieval.domain.errors import DatabaseError, DatabaseUnreachableError
from retrieval.jobs.doctor.checks import (
    Surroundings,
    collection_findings,
    own_findings,
    server_findings,
    storage_findings,
)
from retrieval.jobs.doctor.embedders import EmbedderState, try_embedders
from retrieval.jobs.doctor.findings import qualified
from retrieval.jobs.doctor.made import expected_columns, expected_functions
from retrieval.jobs.doctor.storage import ExpectedIndex
from retrieval.jobs.weights import DRIFT
from retrieval.jobs.workplace import Advance, Target, Workplace, unheeded

_log = logging.getLogger(__name__)


async def diagnose(
    workplace: Workplace,
    tenant_id: int | None,
    collection: str | None = None,
    *,
    is_own: bool = False,
    unread: DatabaseError | None = None,
) -> Diagnosis:
    """Examine the server, the installation and the tenant's collections, or that one alone; None: it has no tenant yet.

    With ``is_own`` what is found about the collections alone is told: their indexes, embedders, jobs and records.
    ``unread``: why not even the tenant could be read. It reads, and asks each embedder for one vector; it changes
    nothing. Raises ``DatabaseUnreachableError``.
    """
    database, settings = workplace.database, workplace.settings
    async with database.maintenance() as connection:
        installation = await read_installation(
            connection, database.names, stalled_seconds=settings.worker_stalled_seconds
        )
        seen_at = workplace.now()
    if unread is None:
        seen = await _tenants_part(workplace, tenant_id, collection)
    else:
        seen = _Seen(tenant=None, findings=(unread_finding(unread),))
    where = Surroundings(
        names=database.names,
        pool_size=settings.pool_size,
        is_embedded=settings.database_url is None,
        now=seen_at,
        expected_indexes=expected_indexes(database.names.schema),
        expected_functions=expected_functions(),
        expected_columns=expected_columns(),
    )
    checks = _own if is_own else _all
    return diagnosis_of([*checks(installation, seen, where), *seen.findings], workplace.now())


async def examine_collection(workplace: Workplace, target: Target, advance: Advance = unheeded) -> dict[str, Any]:
    """The job: examine one collection, log what is an error or a warning there, and put it on record."""
    found = await diagnose(workplace, target.tenant_id, target.collection.name, is_own=True)
    advance(len(found.findings))
    errors = [one for one in found.findings if one.severity is Severity.ERROR]
    warnings = [one for one in found.findings if one.severity is Severity.WARNING]
    notes = [f"{one.check}: {one.found} ({one.mend})" for one in (*errors, *warnings)]
    for note in notes:
        _log.warning("%s", note)
    return {"errors": len(errors), "warnings": len(warnings), "notes": notes}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What the application role could read of a tenant."""

    tenant: TenantState | None
    """None: it could not be read."""
    embedders: list[EmbedderState] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    """Why something could not be read."""


async def _tenants_part(workplace: Workplace, tenant_id: int | None, collection: str | None) -> _Seen:
    """The tenant's collections with their embedders; where they cannot be read, that is a finding like others."""
    try:
        stored = [] if tenant_id is None else await all_collections(workplace.database, tenant_id)
        chosen = [one for one in stored if collection in (None, one.name)]
        tenant = await read_tenant(workplace.database, tenant_id, chosen, drift=DRIFT)
    except DatabaseUnreachableError:
        raise
    except DatabaseError as error:
        return _Seen(tenant=None, findings=(unread_finding(error),))
    if tenant_id is None:
        return _Seen(tenant=tenant, findings=(no_tenant(workplace.settings.tenant),))
    return _Seen(tenant=tenant, embedders=await try_embedders(workplace, tenant_id, chosen))


def unread_finding(error: DatabaseError) -> Finding:
    """The collections could not be read, which something else that was found may explain."""
    return Finding(
        check="reading",
        severity=Severity.ERROR,
        found=f"the tenant's collections could not be read: {error}",
        mend="mend the other errors, then run again: retrieval doctor",
    )


def no_tenant(name: str) -> Finding:
    """Nobody has opened the platform under that name."""
    return Finding(
        check="tenant",
        severity=Severity.ADVICE,
        about=name,
        found=f"there is no tenant {name!r}: nothing was ever stored under this name",
        mend="check --tenant and RETRIEVAL_TENANT; its first command makes it, such as: retrieval ingest NAME FILE",
    )


def _all(installation: Installation, seen: _Seen, where: Surroundings) -> list[Finding]:
    status = None if seen.tenant is None else status_of(where.names.schema, seen.tenant.revision)
    collections = seen.tenant.collections if seen.tenant else ()
    return [
        *server_findings(installation, status, where),
        *storage_findings(installation, collections, where),
        *(collection_findings(installation, seen.tenant, seen.embedders, where) if seen.tenant else ()),
    ]


def _own(installation: Installation, seen: _Seen, where: Surroundings) -> list[Finding]:
    return [] if seen.tenant is None else list(own_findings(installation, seen.tenant, seen.embedders, where))


def expected_indexes(schema: str) -> dict[str, ExpectedIndex]:
    """The indexes and keys that the schema is made with, by name."""
    from sqlalchemy.dialects import postgresql
    from sqlalchemy.schema import CreateIndex

    from retrieval.adapters.store.tables import metadata

    dialect, made = postgresql.dialect(), {}  # type: ignore[no-untyped-call]
    for table in metadata.tables.values():
        for index in table.indexes:
            statement = CreateIndex(index).compile(
                dialect=dialect, schema_translate_map={None: schema}, render_schema_translate=True
            )
            made[str(index.name)] = ExpectedIndex(table.name, f"{str(statement).strip()};")
        if names := [quote_identifier(column.name) for column in table.primary_key.columns]:
            key = str(table.primary_key.name)
            made[key] = ExpectedIndex(
                table.name,
                f"ALTER TABLE {qualified(schema, table.name)} ADD CONSTRAINT {quote_identifier(key)} "
                f"PRIMARY KEY ({', '.join(names)});",
            )
    return made
