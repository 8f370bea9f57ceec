"""Every check on the facts, in the order in which they are told. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from retrieval.adapters.store.installation.examination.collection_state import CollectionState, TenantState
from retrieval.adapters.store.installation.examination.installation import Installation
from retrieval.adapters.store.installation.revisions import SchemaStatus
from retrieval.adapters.store.installed_sql import Names
from retrieval.adapters.store.search.indexes import hnsw_name
from retrieval.domain.diagnosis import Finding
from retrieval.services.doctor.collections import (
    EmbedderState,
    check_collection,
    check_embedders,
    check_months,
    check_queue,
    index_of,
    no_queue,
)
from retrieval.services.doctor.findings import or_fine, several, shell_word, size
from retrieval.services.doctor.server import (
    check_clock,
    check_connections,
    check_holdups,
    check_pgvector,
    check_revision,
    check_server,
    check_settings,
    check_textsearch,
    check_wraparound,
)
from retrieval.services.doctor.storage import (
    ExpectedIndex,
    check_columns,
    check_functions,
    check_indexes,
    check_isolation,
    check_login,
    check_missing,
    check_roles,
    check_tables,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorContext:
    """The context of the checks."""

    names: Names
    pool_size: int
    is_embedded: bool
    """Whether the server is the platform's own."""
    now: datetime
    """This machine's time when the server was looked at, in UTC."""
    expected_indexes: Mapping[str, ExpectedIndex] = field(default_factory=dict)
    """The indexes that the schema is made with, by name."""
    expected_functions: frozenset[str] = frozenset()
    """Their names."""
    expected_columns: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The columns by table."""


def server_findings(installation: Installation, status: SchemaStatus | None, where: DoctorContext) -> Iterator[Finding]:
    """The server, the extensions, the schema, the login. ``status``: None where it could not be read."""
    server = installation.server
    yield from or_fine(check_server(server), "postgresql", f"PostgreSQL {server.version}")
    yield from or_fine(check_pgvector(server), "pgvector", f"pgvector {server.pgvector}")
    textsearch = f"pg_textsearch {server.textsearch}" if server.textsearch else "pg_textsearch is not there, nor needed"
    yield from or_fine(check_textsearch(server), "pg_textsearch", textsearch)
    if status is not None:
        fine = f"schema {status.schema!r} is current (revision {status.current})"
        yield from or_fine(check_revision(status), "schema", fine)
    fine = f"login {server.login!r} may do what is needed"
    yield from or_fine(check_login(server, where.names, is_embedded=where.is_embedded), "login", fine)
    fine = "those of the installation can neither log in nor bypass row-level security"
    yield from or_fine(check_roles(server), "roles", fine)
    fine = "they suit searches by vectors and words"
    yield from or_fine(check_settings(installation.settings, server.database_bytes), "settings", fine)
    yield from traffic_findings(installation, where)


def traffic_findings(installation: Installation, where: DoctorContext) -> Iterator[Finding]:
    """Findings about the server's activity."""
    server = installation.server
    fine = f"{server.connections} of {server.max_connections} are in use"
    yield from or_fine(check_connections(server, where.pool_size), "connections", fine)
    sees_all = server.sees_activity and installation.holdups is not None
    holdups = check_holdups(installation.holdups or (), sees_all=sees_all, login=server.login)
    yield from or_fine(holdups, "transactions", "none is open for long")
    fine = f"the oldest rows were frozen {server.frozen_age:,} transactions ago"
    yield from or_fine(check_wraparound(server), "wraparound", fine)
    yield from or_fine(check_clock(server, where.now), "clock", "the server's and this machine's agree")


def storage_findings(
    installation: Installation, collections: Sequence[CollectionState], where: DoctorContext
) -> Iterator[Finding]:
    """Tables, indexes, isolation, the queue."""
    schema, tables, indexes = where.names.schema, installation.tables, installation.indexes
    fine = f"row-level security is forced on all {several(sum(one.is_private for one in tables), 'table')} of tenants"
    yield from or_fine(check_isolation(tables, where.names), "isolation", fine)
    owners = {hnsw_of(one): shell_word(one.stored.name) for one in collections}
    found = [*check_indexes(indexes, schema, owners), *check_missing(tables, indexes, where.expected_indexes)]
    fine = f"all {several(len(indexes), 'index', 'indexes')} are valid"
    yield from or_fine(found, "indexes", f"{fine}, {size(sum(one.bytes for one in indexes))}")
    fine = f"{several(len(tables), 'table')} are cleaned and counted, {size(sum(one.bytes for one in tables))}"
    found = [*check_columns(tables, where.expected_columns), *check_tables(tables, schema, installation.settings)]
    yield from or_fine(found, "tables", fine)
    yield from check_functions(installation.functions, where.expected_functions)
    if not installation.has_queue:
        yield no_queue(where.names.jobs_schema)
    elif installation.queue is not None:
        queue = installation.queue
        fine = f"{several(queue.workers, 'worker')} at work, {several(queue.waiting, 'job')} to do"
        yield from or_fine(check_queue(queue), "worker", fine)


def collection_findings(
    installation: Installation, tenant: TenantState, embedders: Sequence[EmbedderState], where: DoctorContext
) -> Iterator[Finding]:
    """The tenant's collections, one by one, with their embedders and months."""
    first = shell_word(tenant.collections[0].stored.name) if tenant.collections else None
    yield from or_fine(check_months(tenant.missing_months, first), "months", "those to come are made")
    if embedders:
        fine = f"{', '.join(one.space for one in embedders)}: it answers, in the collections' space"
        yield from or_fine(check_embedders(embedders), "embedder", fine)
    indexes = {one.name: one for one in installation.indexes}
    has_worker = installation.queue is not None and installation.queue.workers > 0
    for one in tenant.collections:
        found = check_collection(one, index_of(one, indexes), where.now, has_worker=has_worker)
        recall = f", recall {one.recall.recall:.3f} of {one.recall.samples}" if one.recall else ""
        fine = f"{one.stored.name!r}: {several(one.stored.documents, 'item')}, nothing waits{recall}"
        yield from or_fine(found, "collection", fine)


def own_findings(
    installation: Installation, tenant: TenantState, embedders: Sequence[EmbedderState], where: DoctorContext
) -> Iterator[Finding]:
    """The findings that a tenant may see, without those about the server and what all tenants share."""
    own = {hnsw_of(one) for one in tenant.collections} - {""}
    yield from (one for one in storage_findings(installation, tenant.collections, where) if one.about in own)
    yield from (one for one in collection_findings(installation, tenant, embedders, where) if one.check != "months")


def hnsw_of(state: CollectionState) -> str:
    """The name that the collection's HNSW index has or would have; empty without vectors."""
    space = state.stored.space
    return hnsw_name(space.space_id, state.stored.collection_id) if space else ""
