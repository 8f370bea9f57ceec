"""Read the facts and check them."""

from __future__ import annotations

from datetime import datetime

from retrieval.adapters.store.collections import all_collections
from retrieval.adapters.store.examination.collection_state import TenantState, read_tenant
from retrieval.adapters.store.examination.installation import Installation, read_installation
from retrieval.adapters.store.installed_sql import quote_identifier
from retrieval.adapters.store.revisions import status_of
from retrieval.domain.diagnosis import Diagnosis, diagnosis_of
from retrieval.jobs.doctor.checks import (
    Surroundings,
    collection_findings,
    own_findings,
    server_findings,
    storage_findings,
)
from retrieval.jobs.doctor.embedders import EmbedderState, try_embedders
from retrieval.jobs.doctor.findings import qualified
from retrieval.jobs.doctor.storage import ExpectedIndex
from retrieval.jobs.weights import DRIFT
from retrieval.jobs.workplace import Workplace


async def diagnose(
    workplace: Workplace, tenant_id: int, collection: str | None = None, *, is_own: bool = False
) -> Diagnosis:
    """Examine the server, the installation and the tenant's collections, or that one alone.

    With ``is_own`` what is found about the collections alone is told: their indexes, embedders, jobs and records.
    It reads, and asks each embedder for one vector; it changes nothing. Raises ``DatabaseUnreachableError``.
    """
    database, settings = workplace.database, workplace.settings
    stored = await all_collections(database, tenant_id)
    chosen = [one for one in stored if collection in (None, one.name)]
    async with database.maintenance() as connection:
        installation = await read_installation(
            connection, database.names, stalled_seconds=settings.worker_stalled_seconds
        )
        seen_at = workplace.now()
    tenant = await read_tenant(database, tenant_id, chosen, drift=DRIFT)
    embedders = await try_embedders(workplace, tenant_id, chosen)
    where = Surroundings(
        names=database.names,
        pool_size=settings.pool_size,
        is_embedded=settings.database_url is None,
        now=seen_at,
        expected_indexes=expected_indexes(database.names.schema),
    )
    if is_own:
        return diagnosis_of(own_findings(installation, tenant, embedders, where), workplace.now())
    return _diagnosis(installation, tenant, embedders, where, workplace.now())


def _diagnosis(
    installation: Installation,
    tenant: TenantState,
    embedders: list[EmbedderState],
    where: Surroundings,
    examined_at: datetime,
) -> Diagnosis:
    findings = [
        *server_findings(installation, status_of(where.names.schema, tenant.revision), where),
        *storage_findings(installation, tenant.collections, where),
        *collection_findings(installation, tenant, embedders, where),
    ]
    return diagnosis_of(findings, examined_at)


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
