"""Checks of the server: releases, settings, connections, long transactions, the clock. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrieval.adapters.store.installation.checks import (
    OLDEST_PGVECTOR,
    OLDEST_POSTGRESQL,
    SOUND_PGVECTOR,
    SchemaStatus,
    version,
)
from retrieval.adapters.store.installation.examination.installation import Holdup, ServerState, Settings
from retrieval.adapters.store.installed_sql import quote_literal
from retrieval.adapters.store.replicas import ReplicaState
from retrieval.domain.diagnosis import Finding, Severity
from retrieval.domain.wording import GIGABYTE, MEGABYTE, duration, size


def check_server(server: ServerState) -> Iterator[Finding]:
    """Check the release of PostgreSQL, and the settings without which nothing works."""
    if server.version_number // 10000 < OLDEST_POSTGRESQL:
        yield Severity.ERROR.finding(
            "postgresql",
            f"the server is PostgreSQL {server.version}; version {OLDEST_POSTGRESQL} or newer is needed",
            "upgrade the server, or unset RETRIEVAL_DATABASE_URL to use the embedded one",
        )
    if server.is_standby:
        yield Severity.ERROR.finding(
            "postgresql",
            "the server is a standby, on which nothing can be stored or recorded",
            "name the primary in RETRIEVAL_DATABASE_URL, for example with ?target_session_attrs=read-write",
        )
    if server.encoding != "UTF8":
        yield Severity.WARNING.finding(
            "postgresql",
            f"the database is encoded in {server.encoding}, which cannot hold every text",
            "make a database with ENCODING 'UTF8' and restore a dump into it",
        )
    if server.is_collation_changed:
        yield Severity.WARNING.finding(
            "postgresql",
            "the operating system sorts text in another order than before: indexes on text may be wrong",
            f'REINDEX DATABASE "{server.database}"; ALTER DATABASE "{server.database}" REFRESH COLLATION VERSION;',
        )
    if server.checksum_failures:
        yield Severity.ERROR.finding(
            "postgresql",
            f"{server.checksum_failures:,} pages of the database failed their checksum: a disk or memory is bad",
            "restore a backup on another machine; the server's log names the files",
        )


def check_pgvector(server: ServerState) -> Iterator[Finding]:
    """Check the release of pgvector; old ones can spoil HNSW indexes."""
    update = "ALTER EXTENSION vector UPDATE;"
    if server.pgvector is None:
        yield Severity.ERROR.finding(
            "pgvector",
            f"pgvector is not installed in database {server.database!r}",
            "have a superuser run there: CREATE EXTENSION vector;"
            if server.pgvector_available
            else "install the package of pgvector on the server, then run: CREATE EXTENSION vector;",
        )
        return
    found = version(server.pgvector)
    if found < version(OLDEST_PGVECTOR):
        yield Severity.ERROR.finding(
            "pgvector",
            f"pgvector {server.pgvector} is installed; {OLDEST_PGVECTOR} or newer is needed (iterative index scans)",
            f"install the newer package on the server, then run: {update}",
        )
    elif found < version(SOUND_PGVECTOR):
        yield Severity.WARNING.finding(
            "pgvector",
            f"pgvector {server.pgvector} is installed; before {SOUND_PGVECTOR}, parallel builds and vacuum can "
            "spoil HNSW indexes",
            f"install the newer package on the server, run: {update} and then: retrieval reindex COLLECTION",
        )
    elif server.pgvector_available and found < version(server.pgvector_available):
        yield Severity.ADVICE.finding(
            "pgvector",
            f"pgvector {server.pgvector} is installed, and the server has {server.pgvector_available}",
            update,
        )


def check_textsearch(server: ServerState) -> Iterator[Finding]:
    """Check pg_textsearch, an optional extension for faster searches by words in large collections."""
    installed, available = server.textsearch, server.textsearch_available
    if installed and not server.is_textsearch_loaded:
        yield Severity.ERROR.finding(
            "pg_textsearch",
            "the extension pg_textsearch is installed, and the server has not loaded its library: its indexes "
            "can be neither read nor written",
            "put pg_textsearch into shared_preload_libraries and restart the server",
        )
    elif installed and available and version(installed) < version(available):
        yield Severity.ADVICE.finding(
            "pg_textsearch",
            f"pg_textsearch {installed} is installed, and the server has {available}",
            "ALTER EXTENSION pg_textsearch UPDATE;",
        )
    elif available and not installed:
        yield Severity.ADVICE.finding(
            "pg_textsearch",
            "the server has pg_textsearch, which makes searches by words in large collections faster",
            "have a superuser run: CREATE EXTENSION pg_textsearch; then: retrieval jobs run indexes",
        )


def check_revision(status: SchemaStatus) -> Iterator[Finding]:
    """The schema against this program."""
    if status.trouble is not None:
        found, mend = status.trouble
        yield Severity.ERROR.finding("schema", found, mend.removeprefix("run: "))


def check_replicas(replicas: Sequence[ReplicaState], longest: float) -> Iterator[Finding]:
    """Check that searches read from the replicas that are configured."""
    for replica in replicas:
        if replica.passed_over:
            behind = "" if replica.lag_seconds is None else f", {duration(replica.lag_seconds)} behind"
            yield Severity.WARNING.finding(
                "replicas",
                f"searches pass over the replica at {replica.server}{behind}: {replica.passed_over}",
                "see that it runs, streams from the primary and replays; else take it out of "
                f"RETRIEVAL_READ_DATABASE_URLS, or allow more than RETRIEVAL_READ_MAX_LAG_SECONDS={longest:g}",
            )


_RELOAD = "SELECT pg_reload_conf();"


@dataclass(frozen=True, slots=True)
class _Switch:
    """A value that a setting should not have."""

    name: str
    unwanted: str
    severity: Severity
    why: str


_SWITCHES = (
    _Switch("fsync", "off", Severity.WARNING, "a crash of the machine can destroy the database"),
    _Switch("full_page_writes", "off", Severity.WARNING, "a crash of the machine can destroy the database"),
    _Switch("autovacuum", "off", Severity.WARNING, "dead rows are never removed and statistics grow old"),
    _Switch("track_counts", "off", Severity.WARNING, "autovacuum does not know what to do"),
    _Switch("default_transaction_read_only", "on", Severity.ERROR, "nothing can be stored or recorded"),
    _Switch("enable_indexscan", "off", Severity.WARNING, "searches read whole tables"),
    _Switch("enable_bitmapscan", "off", Severity.WARNING, "searches by words and filters read whole tables"),
    _Switch("enable_seqscan", "off", Severity.ADVICE, "small tables are read by their indexes, which is slower"),
    _Switch("enable_sort", "off", Severity.ADVICE, "plans avoid an operation that is often the fastest"),
    _Switch("enable_hashjoin", "off", Severity.ADVICE, "plans avoid an operation that is often the fastest"),
    _Switch("enable_nestloop", "off", Severity.WARNING, "items are looked up by reading whole tables"),
    _Switch("synchronous_commit", "off", Severity.ADVICE,
            "a crash of the server may lose the last half second of what it confirmed"),
    _Switch("jit", "on", Severity.ADVICE, "compiling a query can take longer than answering it"),
)  # fmt: skip


def check_settings(settings: Settings, database_bytes: int) -> Iterator[Finding]:
    """Check for settings that are unsafe or make searches slow. A setting that was not read is skipped."""
    for switch in _SWITCHES:
        if settings.get(switch.name) == switch.unwanted:
            good = "off" if switch.unwanted == "on" else "on"
            yield _finding(switch.name, switch.severity, f"is {switch.unwanted}: {switch.why}", good)
    yield from _check_memory(settings, database_bytes)
    if _number(settings, "random_page_cost", 1) >= 4:
        why = "is 4 or more, as for spinning disks: the planner avoids indexes"
        yield _finding("random_page_cost", Severity.ADVICE, why, "1.1", note=" -- where the disks are solid state")
    if _number(settings, "max_parallel_workers_per_gather", 1) == 0:
        why = "is 0: comparing all vectors of a collection uses only one core"
        yield _finding("max_parallel_workers_per_gather", Severity.ADVICE, why, "2")
    if _number(settings, "max_parallel_maintenance_workers", 1) == 0:
        why = "is 0: an HNSW index is built on one core"
        yield _finding("max_parallel_maintenance_workers", Severity.ADVICE, why, "2")
    timeout = _number(settings, "statement_timeout", 0)
    if 0 < timeout < 10:
        why = f"is {timeout:g} s: storing many items at once may be cut off"
        yield _finding("statement_timeout", Severity.ADVICE, why, "60s")


def _check_memory(settings: Settings, database_bytes: int) -> Iterator[Finding]:
    buffers = _number(settings, "shared_buffers", 0)
    if 0 < buffers <= 128 * MEGABYTE < database_bytes:
        why = f"is {size(buffers)}, and the database has {size(database_bytes)}: vectors are read from disk"
        note = " -- about a quarter of the machine's memory; then restart the server"
        yield _finding("shared_buffers", Severity.ADVICE, why, "2GB", note=note, is_reloaded=False)
    maintenance = _number(settings, "maintenance_work_mem", 0)
    if 0 < maintenance < 64 * MEGABYTE:
        why = f"is {size(maintenance)}: building and cleaning indexes takes many times as long"
        yield _finding("maintenance_work_mem", Severity.ADVICE, why, "256MB")
    work = _number(settings, "work_mem", 0)
    if 0 < work < 4 * MEGABYTE:
        why = f"is {size(work)}: sorting candidates spills to disk"
        yield _finding("work_mem", Severity.ADVICE, why, "16MB")


def _number(settings: Settings, name: str, default: float) -> float:
    value = settings.get(name, default)
    return value if isinstance(value, int | float) else default


def _finding(
    name: str, severity: Severity, why: str, good: str, *, note: str = "", is_reloaded: bool = True
) -> Finding:
    reload = f" {_RELOAD}" if is_reloaded else ""
    mend = f"ALTER SYSTEM SET {name} = '{good}';{reload}{note}"
    return severity.finding("settings", f"{name} {why}", mend, about=name)


NEARLY = 0.8
"""The share of the server's connections above which they count as nearly used up."""

SKEW_SECONDS = 5.0
"""The difference of clocks, in seconds, above which expiry and recorded times are wrong."""

MOST_TRANSACTIONS = 2_000_000_000
"""About the age of transaction numbers at which the server stops writing until old rows are frozen."""


def check_connections(server: ServerState, pool_size: int) -> Iterator[Finding]:
    """Check that there is room for this process's pool beside the connections that exist already."""
    if server.connections >= NEARLY * server.max_connections:
        yield Severity.WARNING.finding(
            "connections",
            f"{server.connections} of {server.max_connections} connections of the server are in use",
            "lower RETRIEVAL_POOL_SIZE, put PgBouncer in between, or raise max_connections and restart",
        )
    elif pool_size > server.max_connections:
        yield Severity.WARNING.finding(
            "connections",
            f"RETRIEVAL_POOL_SIZE is {pool_size}, but the server allows {server.max_connections}",
            "lower RETRIEVAL_POOL_SIZE, or raise max_connections and restart the server",
        )


def check_holdups(holdups: Sequence[Holdup], *, sees_all: bool, login: str) -> Iterator[Finding]:
    """Check that no session keeps dead rows, log files or other sessions waiting."""
    for holdup in holdups:
        severity, found, mend = _holdup_text(holdup)
        yield severity.finding("transactions", found, mend, about=holdup.who)
    if not sees_all:
        yield Severity.ADVICE.finding(
            "transactions",
            f"login {login!r} does not see what other logins do, so long transactions may be hidden",
            "GRANT pg_read_all_stats to it, or run the doctor as an administrator",
        )


def _holdup_text(holdup: Holdup) -> tuple[Severity, str, str]:
    end = f"SELECT pg_terminate_backend({holdup.who});"
    match holdup.kind:
        case "idle":
            lasts = duration(holdup.seconds)
            found = f"process {holdup.who} ({holdup.what}) has been idle in a transaction for {lasts}"
            return Severity.WARNING, f"{found}: dead rows cannot be removed meanwhile", end
        case "transaction":
            found = f"process {holdup.who} ({holdup.what}) has been in one transaction for {duration(holdup.seconds)}"
            return Severity.WARNING, f"{found}: dead rows cannot be removed meanwhile", end
        case "blocked":
            found = f"process {holdup.who} ({holdup.what}) has been waiting for a lock for {duration(holdup.seconds)}"
            return Severity.WARNING, found, "end the process that holds it: SELECT pg_terminate_backend(NUMBER);"
        case "prepared":
            found = f"transaction {holdup.who!r} was prepared {duration(holdup.seconds)} ago and has not ended"
            return Severity.WARNING, found, f"ROLLBACK PREPARED {quote_literal(holdup.who)};"
        case _:
            severity = Severity.WARNING if holdup.bytes > GIGABYTE else Severity.ADVICE
            found = (
                f"no one reads replication slot {holdup.who!r}, which retains {size(holdup.bytes)} of the server's log"
            )
            return severity, found, f"SELECT pg_drop_replication_slot({quote_literal(holdup.who)});"


def check_wraparound(server: ServerState) -> Iterator[Finding]:
    """Check that old rows are frozen in time; a server that runs out of transaction numbers stops writing."""
    if server.frozen_age < 2 * server.freeze_max_age:
        return
    is_close = server.frozen_age > MOST_TRANSACTIONS / 2
    yield (Severity.ERROR if is_close else Severity.WARNING).finding(
        "wraparound",
        f"the oldest rows have not been frozen for {server.frozen_age:,} transactions; at about "
        f"{MOST_TRANSACTIONS:,} the server stops writing",
        "VACUUM (FREEZE); as a superuser, after ending the sessions that block autovacuum (see transactions)",
    )


def check_clock(server: ServerState, asked_at: datetime, now: datetime) -> Iterator[Finding]:
    """Check that the server's clock, read between ``asked_at`` and ``now`` of this machine's, agrees with it."""
    skew = (server.now - min(max(server.now, asked_at), now)).total_seconds()
    if abs(skew) <= SKEW_SECONDS:
        return
    yield Severity.WARNING.finding(
        "clock",
        f"the server's clock is {duration(abs(skew))} {'ahead of' if skew > 0 else 'behind'} this machine's",
        "let both follow a time server (NTP)",
    )
