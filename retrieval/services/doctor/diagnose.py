"""Reads the facts of an installation, opened or not, and checks them in the order of the report."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.embedders.chosen import ChosenEmbedders
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installation.checks import SchemaStatus, status_of, stored_revision
from retrieval.adapters.store.installation.embedded.cluster import hanging_seconds
from retrieval.adapters.store.installation.embedded.place import default_home
from retrieval.adapters.store.installation.examination.collection_state import (
    CollectionState,
    TenantState,
    read_disagreements,
    read_tenant,
)
from retrieval.adapters.store.installation.examination.installation import (
    Installation,
    connected,
    read_installation,
)
from retrieval.adapters.store.installation.opening import open_database
from retrieval.adapters.store.installed_sql import Names, qualified, quote_identifier
from retrieval.adapters.store.items.collections import all_collections, find_collection, find_tenant
from retrieval.adapters.store.search.indexes import hnsw_name, stem_of
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.diagnosis import Diagnosis, Finding, Severity, diagnosis_of, or_fine
from retrieval.domain.errors import DatabaseError, DatabaseUnreachableError, RetrievalError, UnknownCollectionError
from retrieval.domain.items.collection import check_collection_name
from retrieval.domain.wording import several, size
from retrieval.services.doctor.collections import (
    ARM_TOLERANCE,
    EmbedderState,
    check_collection,
    check_embedders,
    check_months,
    check_queue,
    check_rows,
    index_of,
    no_queue,
    try_embedders,
)
from retrieval.services.doctor.server import (
    check_clock,
    check_connections,
    check_holdups,
    check_pgvector,
    check_replicas,
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
    expected_columns,
    expected_functions,
)
from retrieval.services.textsearch import DRIFT
from retrieval.services.workplace import Advance, JobTarget, Workplace, ignore_progress
from retrieval.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorContext:
    """The context of the checks."""

    names: Names
    pool_size: int
    is_embedded: bool
    """Whether the server is the platform's own."""
    asked_at: datetime
    now: datetime
    """This machine's times, in UTC, before and after the server's facts were read."""
    expected_indexes: Mapping[str, ExpectedIndex] = field(default_factory=dict)
    """The indexes that the schema's migrations create, by name."""
    expected_functions: frozenset[str] = frozenset()
    """Their names."""
    expected_columns: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The columns by table."""


def server_findings(installation: Installation, status: SchemaStatus | None, where: DoctorContext) -> Iterator[Finding]:
    """The server, the extensions, the schema, the login. ``status``: None where it could not be read."""
    server = installation.server
    yield from or_fine(check_server(server), "postgresql", f"PostgreSQL {server.version}")
    yield from or_fine(check_pgvector(server), "pgvector", f"pgvector {server.pgvector}")
    textsearch = (
        f"pg_textsearch {server.textsearch}" if server.textsearch else "pg_textsearch is not installed, and not needed"
    )
    yield from or_fine(check_textsearch(server), "pg_textsearch", textsearch)
    if status is not None:
        fine = f"schema {status.schema!r} is current (revision {status.current})"
        yield from or_fine(check_revision(status), "schema", fine)
    fine = f"login {server.login!r} may do what is needed"
    yield from or_fine(check_login(server, where.names, is_embedded=where.is_embedded), "login", fine)
    fine = (
        "those of the installation cannot bypass row-level security; nodes log in to each other as these roles"
        if installation.is_distributed
        else "those of the installation can neither log in nor bypass row-level security"
    )
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
    yield from or_fine(check_clock(server, where.asked_at, where.now), "clock", "the server's and this machine's agree")


def storage_findings(
    installation: Installation, collections: Sequence[CollectionState], where: DoctorContext
) -> Iterator[Finding]:
    """Tables, indexes, isolation, the queue."""
    schema, tables, indexes = where.names.schema, installation.tables, installation.indexes
    fine = (
        f"row-level security is forced on all {several(sum(table.is_private for table in tables), 'table')} of tenants"
    )
    isolation = check_isolation(tables, where.names, is_distributed=installation.is_distributed)
    yield from or_fine(isolation, "isolation", fine)
    owners = {hnsw_of(state): shlex.quote(state.stored.name) for state in collections}
    found = [*check_indexes(indexes, schema, owners), *check_missing(tables, indexes, where.expected_indexes)]
    fine = f"all {several(len(indexes), 'index')} are valid"
    yield from or_fine(found, "indexes", f"{fine}, {size(sum(index.bytes for index in indexes))}")
    fine = f"{several(len(tables), 'table')} are cleaned and counted, {size(sum(table.bytes for table in tables))}"
    found = [*check_columns(tables, where.expected_columns), *check_tables(tables, schema, installation.settings)]
    yield from or_fine(found, "tables", fine)
    yield from check_functions(installation.functions, where.expected_functions)
    if not installation.has_queue:
        yield no_queue(where.names.jobs_schema)
    elif installation.queue is not None:
        queue = installation.queue
        at_work = f"{several(queue.workers, 'worker')} at work" if queue.workers else "no worker runs now"
        fine = f"{at_work}, {several(queue.waiting, 'job')} waiting"
        yield from or_fine(check_queue(queue), "worker", fine)


def collection_findings(
    installation: Installation, tenant: TenantState, embedders: Sequence[EmbedderState], where: DoctorContext
) -> Iterator[Finding]:
    """The tenant's collections, one by one, with their embedders and months."""
    # Months are made whenever a platform opens: where there is no collection yet, there may have been no need.
    if tenant.collections:
        first = shlex.quote(tenant.collections[0].stored.name)
        yield from or_fine(check_months(tenant.missing_months, first), "months", "those to come are made")
    if embedders:
        fine = f"{', '.join(embedder.space for embedder in embedders)}: it answers, in the collections' space"
        yield from or_fine(check_embedders(embedders), "embedder", fine)
    indexes = {index.name: index for index in installation.indexes}
    has_worker = installation.queue is not None and installation.queue.workers > 0
    for state in tenant.collections:
        found = check_collection(state, index_of(state, indexes), where.now, has_worker=has_worker)
        recall = f", recall {state.recall.recall:.3f} of {state.recall.samples}" if state.recall else ""
        fine = f"{state.stored.name!r}: {several(state.stored.documents, 'item')}, nothing waits{recall}"
        yield from or_fine(found, "collection", fine)


def own_findings(
    installation: Installation, tenant: TenantState, embedders: Sequence[EmbedderState], where: DoctorContext
) -> Iterator[Finding]:
    """The findings that concern the tenant alone, without those about the server and what all tenants share."""
    own = {hnsw_of(state) for state in tenant.collections} - {""}
    stored = storage_findings(installation, tenant.collections, where)
    yield from (finding for finding in stored if stem_of(finding.about) in own)
    yield from (
        finding for finding in collection_findings(installation, tenant, embedders, where) if finding.check != "months"
    )


def hnsw_of(state: CollectionState) -> str:
    """The beginning of the names that the collection's HNSW indexes have or would have; empty without vectors."""
    space = state.stored.space
    return hnsw_name(space.space_id, state.stored.collection_id) if space else ""


async def diagnose_closed(settings: Settings, error: RetrievalError, clock: Callable[[], datetime]) -> Diagnosis:
    """Diagnose a platform whose opening raised ``error``; ``clock`` gives the time of day, in UTC."""
    names = Names(settings.database_schema)
    findings: list[Finding] = []
    asked_at = clock()
    if settings.database_url is not None:
        try:
            installation, status = await _read_server(settings, names)
        except DatabaseError as again:
            error = again
        else:
            where = DoctorContext(
                names=names, pool_size=settings.pool_size, is_embedded=False, asked_at=asked_at, now=clock()
            )
            findings = list(server_findings(installation, status, where))
    if all(finding.severity is not Severity.ERROR for finding in findings):
        findings.insert(0, finding_of(error))
    return diagnosis_of(findings, clock())


def finding_of(error: RetrievalError) -> Finding:
    """The error as a finding; the text after its first semicolon says what to do."""
    found, _, mend = str(error).partition("; ")
    return Severity.ERROR.finding("platform", found, mend)


async def _read_server(settings: Settings, names: Names) -> tuple[Installation, SchemaStatus | None]:
    url = settings.database_url
    async with connected("" if url is None else url.get_secret_value()) as connection:
        installation = await read_installation(connection, names, stalled_seconds=settings.worker_stalled_seconds)
        if not installation.server.has_schema:
            return installation, status_of(names.schema, None)
        try:
            return installation, status_of(names.schema, await stored_revision(connection, names))
        except psycopg.errors.InsufficientPrivilege:
            return installation, None


_log = logging.getLogger(__name__)


async def diagnose(
    workplace: Workplace,
    tenant_id: int | None,
    collection: str | None = None,
    *,
    is_own: bool = False,
    is_deep: bool = False,
    unread: DatabaseError | None = None,
) -> Diagnosis:
    """Examine the server, the installation and the tenant's collections, or that one alone; None: it has no tenant yet.

    With ``is_own`` only findings about the collections are returned: their indexes, embedders, jobs and records. With
    ``is_deep`` every row of the collections is compared with its sources, which takes a while. ``unread``: the error
    with which the tenant could not be read. Nothing is changed; each embedder is asked for one vector. Raises
    ``DatabaseUnreachableError``.
    """
    database, settings = workplace.database, workplace.settings
    asked_at = workplace.now()
    async with database.maintenance() as connection:
        installation = await read_installation(
            connection, database.names, stalled_seconds=settings.worker_stalled_seconds
        )
        read_at = workplace.now()
    replicas = [] if is_own else list(await _replica_findings(database, settings))
    if unread is None:
        facts = await _read_tenant_facts(workplace, tenant_id, collection)
    else:
        facts = _TenantFacts(tenant=None, findings=(unread_finding(unread),))
    where = DoctorContext(
        names=database.names,
        pool_size=settings.pool_size,
        is_embedded=settings.database_url is None,
        asked_at=asked_at,
        now=read_at,
        expected_indexes=expected_indexes(database.names.schema),
        expected_functions=expected_functions(),
        expected_columns=expected_columns(),
    )
    checks = _own if is_own else _all
    deep = await _deep_findings(workplace, tenant_id, facts.tenant) if is_deep else []
    return diagnosis_of([*checks(installation, facts, where), *replicas, *facts.findings, *deep], workplace.now())


async def _deep_findings(workplace: Workplace, tenant_id: int | None, tenant: TenantState | None) -> list[Finding]:
    """Compare the rows of each collection, one after the other."""
    findings: list[Finding] = []
    if tenant_id is None or tenant is None:
        return findings
    for state in tenant.collections:
        name, number = state.stored.name, state.stored.collection_id
        try:
            rows = await read_disagreements(workplace.database, tenant_id, number, tolerance=ARM_TOLERANCE)
        except DatabaseUnreachableError:
            raise
        except DatabaseError as error:
            findings.append(unread_finding(error))
            continue
        findings += or_fine(check_rows(name, rows), "deep", f"{name!r}: all rows agree")
    return findings


async def _replica_findings(database: Database, settings: Settings) -> Sequence[Finding]:
    if database.replicas is None:
        return ()
    await database.replicas.look()
    states = database.replicas.states
    each = ", ".join(f"{state.server} is at most {state.lag_seconds or 0:.1f} s behind" for state in states)
    return or_fine(check_replicas(states, settings.read_max_lag_seconds), "replicas", each)


async def examine_collection(
    workplace: Workplace, target: JobTarget, advance: Advance = ignore_progress
) -> dict[str, Any]:
    """The job: examine one collection, log its errors and warnings, and record them."""
    diagnosis = await diagnose(workplace, target.tenant_id, target.collection.name, is_own=True)
    advance(len(diagnosis.findings))
    errors = [finding for finding in diagnosis.findings if finding.severity is Severity.ERROR]
    warnings = [finding for finding in diagnosis.findings if finding.severity is Severity.WARNING]
    notes = [f"{finding.check}: {finding.found} ({finding.mend})" for finding in (*errors, *warnings)]
    for note in notes:
        _log.warning("%s", note)
    return {"errors": len(errors), "warnings": len(warnings), "notes": notes}


@dataclass(frozen=True, slots=True, kw_only=True)
class _TenantFacts:
    """The facts about a tenant that the application role could read."""

    tenant: TenantState | None
    """None: it could not be read."""
    embedders: list[EmbedderState] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    """Findings about what could not be read."""


async def _read_tenant_facts(workplace: Workplace, tenant_id: int | None, collection: str | None) -> _TenantFacts:
    """The tenant's collections with their embedders, or a finding where they cannot be read."""
    try:
        stored = [] if tenant_id is None else await all_collections(workplace.database, tenant_id)
        chosen = [known for known in stored if collection in (None, known.name)]
        tenant = await read_tenant(workplace.database, tenant_id, chosen, drift=DRIFT)
    except DatabaseUnreachableError:
        raise
    except DatabaseError as error:
        return _TenantFacts(tenant=None, findings=(unread_finding(error),))
    if tenant_id is None:
        return _TenantFacts(tenant=tenant, findings=(no_tenant(workplace.settings.tenant),))
    return _TenantFacts(tenant=tenant, embedders=await try_embedders(workplace, tenant_id, chosen))


def unread_finding(error: DatabaseError) -> Finding:
    """The finding that the collections could not be read; other findings may explain it."""
    return Severity.ERROR.finding(
        "reading",
        f"the tenant's collections could not be read: {error}",
        "mend the other errors, then run again: retrieval doctor",
    )


def no_tenant(name: str) -> Finding:
    """The finding that there is no such tenant."""
    return Severity.ADVICE.finding(
        "tenant",
        f"there is no tenant {name!r}: nothing was ever stored under this name",
        "check --tenant and RETRIEVAL_TENANT; its first command makes it, such as: retrieval ingest NAME FILE",
        about=name,
    )


def _all(installation: Installation, facts: _TenantFacts, where: DoctorContext) -> list[Finding]:
    status = None if facts.tenant is None else status_of(where.names.schema, facts.tenant.revision)
    collections = facts.tenant.collections if facts.tenant else ()
    return [
        *server_findings(installation, status, where),
        *storage_findings(installation, collections, where),
        *(collection_findings(installation, facts.tenant, facts.embedders, where) if facts.tenant else ()),
    ]


def _own(installation: Installation, facts: _TenantFacts, where: DoctorContext) -> list[Finding]:
    return [] if facts.tenant is None else list(own_findings(installation, facts.tenant, facts.embedders, where))


def expected_indexes(schema: str) -> dict[str, ExpectedIndex]:
    """The indexes and keys that the schema's migrations create, by name."""
    from retrieval.adapters.store.tables import indexes, primary_keys

    expected = {
        name: ExpectedIndex(index.table, index.statement.replace(f" ON {index.table}", f" ON {where}"))
        for name, index in indexes().items()
        for where in [qualified(schema, index.table)]
    }
    for name, key in primary_keys().items():
        columns = ", ".join(map(quote_identifier, key.columns))
        expected[name] = ExpectedIndex(
            key.table,
            f"ALTER TABLE {qualified(schema, key.table)} ADD CONSTRAINT {quote_identifier(name)} "
            f"PRIMARY KEY ({columns});",
        )
    return expected


async def examine(settings: Settings, collection: str | None = None, *, is_deep: bool = False) -> Diagnosis:
    """Diagnose as ``diagnose`` does, without making a missing tenant or missing months of searches.

    An embedded server is started, and set up the first time. Raises ``UnknownCollectionError``, and ``DatabaseError``
    where the database does not open.
    """
    if collection is not None:
        check_collection_name(collection)
    async with AsyncExitStack() as stack:
        embedded_findings = [] if settings.database_url else list(check_embedded(settings.home or default_home()))
        database = await open_database(settings, stack)
        embedders = ChosenEmbedders(settings)
        stack.push_async_callback(embedders.aclose)

        def embedder_of(tenant_id: int, space: StoredSpace) -> CachedEmbedder | None:
            return embedders.of(space, database, tenant_id)

        workplace = Workplace(database, settings, embedder_of)
        try:
            tenant_id = await _tenant(database, settings.tenant, collection)
        except DatabaseUnreachableError:
            raise
        except DatabaseError as error:
            diagnosis = await diagnose(workplace, None, collection, unread=error)
        else:
            diagnosis = await diagnose(workplace, tenant_id, collection, is_deep=is_deep)
        return diagnosis_of([*embedded_findings, *diagnosis.findings], diagnosis.examined_at)


async def renew_statistics(settings: Settings, findings: Sequence[Finding]) -> None:
    """Run the statements of findings that ``mends_statistics``; the server skips tables that the login does not own."""
    async with AsyncExitStack() as stack:
        database = await open_database(settings, stack)
        async with database.maintenance() as connection:
            for finding in findings:
                await connection.execute(finding.mend.encode())


def check_embedded(home: Path) -> Iterator[Finding]:
    """The finding that the embedded server does not hang; opening it would already have mended that."""
    seconds = hanging_seconds(home.expanduser().resolve() / "data")
    if seconds is not None:
        yield Severity.WARNING.finding(
            "postgresql",
            f"the embedded server had been stopping for {seconds:,.0f} seconds and hung: it was ended and started"
            " anew, and nothing that was committed is lost",
            f"see {home / 'server.log'} for what went before: often a process was killed, as memory ran out",
        )


async def _tenant(database: Database, name: str, collection: str | None) -> int | None:
    """The tenant, if it has that collection; None: there is no such tenant, and no collection was named."""
    tenant_id = await find_tenant(database, name)
    if collection is None:
        return tenant_id
    if tenant_id is None or await find_collection(database, tenant_id, collection) is None:
        raise UnknownCollectionError(
            f"there is no collection {collection!r} of tenant {name!r}; retrieval collections shows those there are"
        )
    return tenant_id
