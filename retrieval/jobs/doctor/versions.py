"""Checks of the server's and the extensions' releases, and of the schema's revision."""

from __future__ import annotations

from collections.abc import Iterator

from retrieval.adapters.store.installation.checks import OLDEST_PGVECTOR, OLDEST_POSTGRESQL, SOUND_PGVECTOR
from retrieval.adapters.store.installation.examination.server_state import ServerState
from retrieval.adapters.store.installation.revisions import SchemaStatus
from retrieval.domain.diagnosis import Finding, Severity


def check_server(server: ServerState) -> Iterator[Finding]:
    """The release of PostgreSQL, and what of the server nothing works without."""
    if server.version_number // 10000 < OLDEST_POSTGRESQL:
        yield Finding(
            check="postgresql",
            severity=Severity.ERROR,
            found=f"the server is PostgreSQL {server.version}; version {OLDEST_POSTGRESQL} or newer is needed",
            mend="upgrade the server, or unset RETRIEVAL_DATABASE_URL to use the embedded one",
        )
    if server.is_standby:
        yield Finding(
            check="postgresql",
            severity=Severity.ERROR,
            found="the server is a standby, on which nothing can be stored or recorded",
            mend="name the primary in RETRIEVAL_DATABASE_URL, for example with ?target_session_attrs=read-write",
        )
    if server.encoding != "UTF8":
        yield Finding(
            check="postgresql",
            severity=Severity.WARNING,
            found=f"the database is encoded in {server.encoding}, which cannot hold every text",
            mend="make a database with ENCODING 'UTF8' and restore a dump into it",
        )
    if server.is_collation_changed:
        yield Finding(
            check="postgresql",
            severity=Severity.WARNING,
            found="the operating system sorts text otherwise than when the database was made: indexes on text may lie",
            mend=f'REINDEX DATABASE "{server.database}"; ALTER DATABASE "{server.database}" REFRESH COLLATION VERSION;',
        )
    if server.checksum_failures:
        yield Finding(
            check="postgresql",
            severity=Severity.ERROR,
            found=f"{server.checksum_failures:,} pages of the database failed their checksum: a disk or memory is bad",
            mend="restore a backup on another machine; the server's log names the files",
        )


def check_pgvector(server: ServerState) -> Iterator[Finding]:
    """The release of pgvector: old ones can spoil HNSW indexes."""
    update = "ALTER EXTENSION vector UPDATE;"
    if server.pgvector is None:
        yield Finding(
            check="pgvector",
            severity=Severity.ERROR,
            found=f"pgvector is not installed in database {server.database!r}",
            mend="have a superuser run there: CREATE EXTENSION vector;"
            if server.pgvector_available
            else "install the package of pgvector on the server, then run: CREATE EXTENSION vector;",
        )
        return
    found = version(server.pgvector)
    if found < OLDEST_PGVECTOR:
        yield Finding(
            check="pgvector",
            severity=Severity.ERROR,
            found=f"pgvector {server.pgvector} is installed; 0.8.0 or newer is needed (iterative index scans)",
            mend=f"install the newer package on the server, then run: {update}",
        )
    elif found < SOUND_PGVECTOR:
        yield Finding(
            check="pgvector",
            severity=Severity.WARNING,
            found=f"pgvector {server.pgvector} is installed; before 0.8.6, parallel builds and vacuum can spoil HNSW "
            "indexes",
            mend=f"install the newer package on the server, run: {update} and then: retrieval reindex COLLECTION",
        )
    elif server.pgvector_available and found < version(server.pgvector_available):
        yield Finding(
            check="pgvector",
            severity=Severity.ADVICE,
            found=f"pgvector {server.pgvector} is installed, and the server has {server.pgvector_available}",
            mend=update,
        )


def check_textsearch(server: ServerState) -> Iterator[Finding]:
    """pg_textsearch, which is optional: faster searches by words in large collections."""
    installed, available = server.textsearch, server.textsearch_available
    if installed and not server.is_textsearch_loaded:
        yield Finding(
            check="pg_textsearch",
            severity=Severity.ERROR,
            found="the extension pg_textsearch is installed, and the server has not loaded its library: its indexes "
            "can be neither read nor written",
            mend="put pg_textsearch into shared_preload_libraries and restart the server",
        )
    elif installed and available and version(installed) < version(available):
        yield Finding(
            check="pg_textsearch",
            severity=Severity.ADVICE,
            found=f"pg_textsearch {installed} is installed, and the server has {available}",
            mend="ALTER EXTENSION pg_textsearch UPDATE;",
        )
    elif available and not installed:
        yield Finding(
            check="pg_textsearch",
            severity=Severity.ADVICE,
            found="the server has pg_textsearch, which makes searches by words in large collections faster",
            mend="have a superuser run: CREATE EXTENSION pg_textsearch; then: retrieval jobs run indexes",
        )


def check_revision(status: SchemaStatus) -> Iterator[Finding]:
    """The schema against this program."""
    if status.is_current:
        return
    if status.current is None:
        found, mend = f"schema {status.schema!r} is not set up in this database", "retrieval db upgrade"
    elif status.known:
        found = f"schema {status.schema!r} is at revision {status.current} and this program needs {status.head}"
        mend = "retrieval db upgrade"
    else:
        found = f"schema {status.schema!r} is at revision {status.current}, which this program does not know"
        mend = f"install the newer program, or run its: retrieval db downgrade {status.head}"
    yield Finding(check="schema", severity=Severity.ERROR, found=found, mend=mend)


def version(text: str) -> tuple[int, ...]:
    """``0.8.6`` as numbers, up to where it stops being numbers: ``1.0-dev`` is ``(1, 0)``."""
    numbers: list[int] = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
