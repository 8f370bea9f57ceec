"""Reads the facts of an installation, opened or not, and checks them in the order of the report."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from retrieval.adapters.embedders.chosen import ChosenEmbedders
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.installation.embedded.home import default_home
from retrieval.adapters.store.installation.embedded.home_server import hanging_seconds
from retrieval.adapters.store.installation.examination import (
    Installation,
    connected,
    read_disagreements,
    read_installation,
    read_tenant_facts,
)
from retrieval.adapters.store.installation.opening import open_database
from retrieval.adapters.store.installed_sql import Names
from retrieval.adapters.store.items.collection_facts import collection_statuses
from retrieval.adapters.store.items.collections import StoredCollection, all_collections, find_collection, find_tenant
from retrieval.adapters.store.search.indexes import hnsw_name, stem_of
from retrieval.domain.diagnosis import Diagnosis, Finding, Severity, diagnosis_of, or_fine
from retrieval.domain.errors import DatabaseError, DatabaseUnreachableError, RetrievalError, UnknownCollectionError
from retrieval.domain.items.collection import check_collection_name
from retrieval.domain.wording import several, size
from retrieval.services.doctor import collections as of_collections
from retrieval.services.doctor import server as of_server
from retrieval.services.doctor import storage as of_storage
from retrieval.services.workplace import Workplace
from retrieval.settings import Settings


def server_findings(installation: Installation, settings: Settings, *, is_pooled: bool = False) -> Iterator[Finding]:
    """The server, the extensions, the schema, the login, the settings."""
    facts, server, status = installation.facts, installation.server, installation.status
    names, is_embedded = Names(settings.database_schema), settings.database_url is None
    yield from or_fine(of_server.check_server(facts, server), "postgresql", f"PostgreSQL {server.version}")
    found = of_server.check_connections(server, settings.pool_size)
    yield from or_fine(found, "connections", f"{server.connections} of {server.max_connections} are in use")
    pgvector = f"pgvector {facts.pgvector or 'is installed with the schema'}"
    yield from or_fine(of_server.check_pgvector(facts), "pgvector", pgvector)
    textsearch = f"pg_textsearch {server.textsearch or 'is not installed, and not needed'}"
    yield from or_fine(of_server.check_textsearch(server), "pg_textsearch", textsearch)
    if status is not None:
        # A schema of another revision has other parts.
        found = of_storage.check_parts(installation.tables, server.functions)
        found = of_server.check_revision(status) if status.trouble else found
        yield from or_fine(found, "schema", f"schema {status.schema!r} is current (revision {status.current})")
    fine = f"login {facts.login!r} may do what is needed"
    found = of_server.check_login(facts, server, names, is_embedded=is_embedded, is_pooled=is_pooled)
    yield from or_fine(found, "login", fine)
    fine = "those of the installation can neither log in nor bypass row-level security"
    if facts.is_distributed:
        fine = "those of the installation cannot bypass row-level security; nodes log in to each other as these roles"
    unsafe = [*of_server.check_roles(server), *of_server.check_schemas(server, names)]
    yield from or_fine([*unsafe, *of_server.check_owners(server, names)], "roles", fine)
    found = of_server.check_settings(installation.settings, server.database_bytes)
    yield from or_fine(found, "settings", "they suit searches by vectors and words")
    found = of_server.check_clock(server, installation.asked_at, installation.read_at)
    yield from or_fine(found, "clock", "the server's and this machine's agree")


def storage_findings(
    installation: Installation, collections: Sequence[StoredCollection], names: Names
) -> Iterator[Finding]:
    """Tables, indexes, isolation, the queue."""
    schema, tables, indexes = names.schema, installation.tables, installation.indexes
    private = several(sum(table.is_private for table in tables), "table")
    isolation = of_storage.check_isolation(tables, names, is_distributed=installation.facts.is_distributed)
    yield from or_fine(isolation, "isolation", f"row-level security is forced on all {private} of tenants")
    invalid = of_storage.check_indexes(indexes, schema, index_owners(collections))
    found = [*invalid, *of_storage.check_missing(tables, indexes, schema)]
    fine = f"all {several(len(indexes), 'index')} are valid, {size(sum(index.bytes for index in indexes))}"
    yield from or_fine(found, "indexes", fine)
    fine = f"{several(len(tables), 'table')} are cleaned and counted, {size(sum(table.bytes for table in tables))}"
    yield from or_fine(of_storage.check_tables(tables, schema), "tables", fine)
    if not installation.has_queue:
        yield of_collections.no_queue(names.jobs_schema)
    elif installation.queue is not None:
        queue = installation.queue
        at_work = f"{several(queue.workers, 'worker')} at work" if queue.workers else "no worker runs now"
        fine = f"{at_work}, {several(queue.waiting, 'job')} waiting"
        yield from or_fine(of_collections.check_queue(queue), "worker", fine)


def index_owners(collections: Sequence[StoredCollection]) -> dict[str, str]:
    """The collections' names, for a shell, by the beginning of the names of their HNSW indexes."""
    return {
        hnsw_name(stored.space.space_id, stored.collection_id): shlex.quote(stored.name)
        for stored in collections
        if stored.space is not None
    }


async def diagnose_closed(settings: Settings, error: RetrievalError, clock: Callable[[], datetime]) -> Diagnosis:
    """Diagnose a platform whose opening raised ``error``; ``clock`` gives the time of day, in UTC."""
    names, stalled = Names(settings.database_schema), settings.worker_stalled_seconds
    findings: list[Finding] = []
    if settings.database_url is not None:
        try:
            async with connected(settings.database_url.get_secret_value()) as connection:
                installation = await read_installation(connection, names, of_server.SETTINGS, stalled, clock)
            findings = list(server_findings(installation, settings))
        except DatabaseError as again:
            error = again
    if all(finding.severity is not Severity.ERROR for finding in findings):
        findings.insert(0, of_server.finding_of(error))
    return diagnosis_of(findings, clock())


async def diagnose(
    workplace: Workplace,
    tenant_id: int | None,
    collection: str | None = None,
    *,
    is_own: bool = False,
    is_deep: bool = False,
) -> Diagnosis:
    """Examine the server, the installation and the tenant's collections, or that one alone; None: no tenant.

    With ``is_own`` only findings about the collections are returned: their indexes, embedders, jobs and records. With
    ``is_deep`` every row of the collections is compared with its sources, which takes a while. Nothing is changed;
    each embedder is asked for one vector. Raises ``DatabaseUnreachableError``.
    """
    database, settings, now = workplace.database, workplace.settings, workplace.now
    stalled = settings.worker_stalled_seconds
    async with database.maintenance() as connection:
        installation = await read_installation(connection, database.names, of_server.SETTINGS, stalled, now)
    collections: list[StoredCollection] = []
    about_tenant: list[Finding] = []
    if tenant_id is not None:
        with _noting_unread(about_tenant):
            known = await all_collections(database, tenant_id)
            collections = [stored for stored in known if collection in (None, stored.name)]
            about_tenant += await _tenant_findings(workplace, tenant_id, collections, installation, workplace.now())
    if is_own:
        owners = index_owners(collections)
        own_indexes = [index for index in installation.indexes if stem_of(index.name) in owners]
        findings = list(of_storage.check_indexes(own_indexes, database.names.schema, owners))
        about_tenant = [finding for finding in about_tenant if finding.check != "months"]
    else:
        findings = list(server_findings(installation, settings, is_pooled=database.is_pooled))
        findings += storage_findings(installation, collections, database.names)
        findings += await _replica_findings(database, settings)
    if is_deep and tenant_id is not None:
        about_tenant += await _deep_findings(database, tenant_id, collections)
    return diagnosis_of([*findings, *about_tenant], workplace.now())


async def _tenant_findings(
    workplace: Workplace,
    tenant_id: int,
    collections: Sequence[StoredCollection],
    installation: Installation,
    now: datetime,
) -> list[Finding]:
    """The tenant's collections, one by one, with their months and embedders."""
    database, findings = workplace.database, list[Finding]()
    tenant = await read_tenant_facts(database, tenant_id, [stored.collection_id for stored in collections])
    # Months are made whenever a platform opens: where there is no collection yet, there may have been no need.
    if collections:
        months = of_collections.check_months(tenant.missing_months, shlex.quote(collections[0].name))
        findings += or_fine(months, "months", "those to come are made")
    if embedders := await of_collections.try_embedders(workplace, tenant_id, collections):
        fine = f"{', '.join(embedders)}: it answers, in the collections' space"
        findings += or_fine(of_collections.check_embedders(embedders), "embedder", fine)
    has_worker = installation.queue is not None and installation.queue.workers > 0
    statuses = await collection_statuses(database, tenant_id, collections)
    for stored, status in zip(collections, statuses, strict=True):
        measured = ", recall {:.3f} of {}".format(*status.mean_recall) if status.mean_recall else ""
        fine = f"{stored.name!r}: {several(stored.documents, 'item')}, nothing waits{measured}"
        found = of_collections.check_collection(stored, status, tenant, now, has_worker=has_worker)
        findings += or_fine(found, "collection", fine)
    return findings


async def _deep_findings(database: Database, tenant_id: int, collections: Sequence[StoredCollection]) -> list[Finding]:
    """Compare the rows of each collection, one after the other."""
    findings: list[Finding] = []
    for stored in collections:
        with _noting_unread(findings):
            rows = await read_disagreements(CollectionPlace(database, tenant_id, stored.collection_id))
            found = of_collections.check_rows(stored.name, rows)
            findings += or_fine(found, "deep", f"{stored.name!r}: all rows agree")
    return findings


async def _replica_findings(database: Database, settings: Settings) -> Sequence[Finding]:
    if database.replicas is None:
        return ()
    await database.replicas.look()
    states = database.replicas.states
    each = ", ".join(f"{state.server} is at most {state.lag_seconds or 0:.1f} s behind" for state in states)
    return or_fine(of_server.check_replicas(states, settings.read_max_lag_seconds), "replicas", each)


@contextmanager
def _noting_unread(findings: list[Finding]) -> Iterator[None]:
    """Add the finding that the tenant's collections could not be read, if so; other findings may explain it."""
    try:
        yield
    except DatabaseUnreachableError:
        raise
    except DatabaseError as error:
        found = f"the tenant's collections could not be read: {error}"
        mend = "mend the other errors, then run again: retrieval doctor"
        findings.append(Severity.ERROR.finding("reading", found, mend))


def no_tenant(name: str) -> Finding:
    """The finding that there is no such tenant."""
    found = f"there is no tenant {name!r}: nothing was ever stored under this name"
    mend = "check --tenant and RETRIEVAL_TENANT; its first command makes it, such as: retrieval ingest NAME FILE"
    return Severity.ADVICE.finding("tenant", found, mend, about=name)


async def examine(settings: Settings, collection: str | None = None, *, is_deep: bool = False) -> Diagnosis:
    """Diagnose as ``diagnose`` does, without making a missing tenant or missing months of searches.

    An embedded server is started, and set up the first time. Raises ``UnknownCollectionError``, and ``DatabaseError``
    where the database does not open.
    """
    if collection is not None:
        check_collection_name(collection)
    async with AsyncExitStack() as stack:
        findings = [] if settings.database_url else list(check_embedded(settings.home or default_home()))
        database = await open_database(settings, stack)
        embedders = ChosenEmbedders(settings)
        stack.push_async_callback(embedders.aclose)
        workplace = Workplace(database, settings, lambda tenant_id, space: embedders.of(space, database, tenant_id))
        tenant_id = None
        with _noting_unread(findings):
            tenant_id = await find_tenant(database, settings.tenant)
            if collection is not None and (
                tenant_id is None or await find_collection(database, tenant_id, collection) is None
            ):
                raise UnknownCollectionError(
                    f"there is no collection {collection!r} of tenant {settings.tenant!r}; check both names"
                )
            if tenant_id is None:
                findings.append(no_tenant(settings.tenant))
        diagnosis = await diagnose(workplace, tenant_id, collection, is_deep=is_deep)
        return diagnosis_of([*findings, *diagnosis.findings], diagnosis.examined_at)


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
            " again, and nothing that was committed is lost",
            f"see {home / 'server.log'} for what went before: often a process was killed, as memory ran out",
        )
