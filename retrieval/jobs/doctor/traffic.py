"""Checks of what goes on in the server: connections, long transactions, transaction numbers, the clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from retrieval.adapters.store.installation.examination.activity import Holdup
from retrieval.adapters.store.installation.examination.server_state import ServerState
from retrieval.adapters.store.installed_sql import quote_literal
from retrieval.domain.diagnosis import Finding, Severity
from retrieval.jobs.doctor.findings import GIGABYTE, duration, size

NEARLY = 0.8
"""The share of the server's connections from which on they are nearly used up."""

SKEW_SECONDS = 5.0
"""Clocks that differ by more make times of day lie: what expires, what was asked when."""

MOST_TRANSACTIONS = 2_000_000_000
"""About where the server stops writing, until it has frozen old rows."""


def check_connections(server: ServerState, pool_size: int) -> Iterator[Finding]:
    """There is room for this process's pool beside what is connected already."""
    if server.connections >= NEARLY * server.max_connections:
        yield Finding(
            check="connections",
            severity=Severity.WARNING,
            found=f"{server.connections} of {server.max_connections} connections of the server are in use",
            mend="lower RETRIEVAL_POOL_SIZE, put PgBouncer in between, or raise max_connections and restart",
        )
    elif pool_size > server.max_connections:
        yield Finding(
            check="connections",
            severity=Severity.WARNING,
            found=f"RETRIEVAL_POOL_SIZE is {pool_size}, and the server lets in {server.max_connections}",
            mend="lower RETRIEVAL_POOL_SIZE, or raise max_connections and restart the server",
        )


def check_holdups(holdups: Sequence[Holdup], *, sees_all: bool, login: str) -> Iterator[Finding]:
    """Nothing keeps dead rows, log files or other sessions waiting."""
    for one in holdups:
        severity, found, mend = _said(one)
        yield Finding(check="transactions", severity=severity, about=one.who, found=found, mend=mend)
    if not sees_all:
        yield Finding(
            check="transactions",
            severity=Severity.ADVICE,
            found=f"login {login!r} does not see what other logins do, so long transactions may be hidden",
            mend="GRANT pg_read_all_stats to it, or run the doctor as an administrator",
        )


def _said(one: Holdup) -> tuple[Severity, str, str]:
    end = f"SELECT pg_terminate_backend({one.who});"
    match one.kind:
        case "idle":
            found = f"process {one.who} ({one.what}) sits in a transaction for {duration(one.seconds)} and does nothing"
            return Severity.WARNING, f"{found}: dead rows cannot be removed meanwhile", end
        case "transaction":
            found = f"process {one.who} ({one.what}) is in one transaction for {duration(one.seconds)}"
            return Severity.WARNING, f"{found}: dead rows cannot be removed meanwhile", end
        case "blocked":
            found = f"process {one.who} ({one.what}) waits for a lock for {duration(one.seconds)}"
            return Severity.WARNING, found, "end the process that holds it: SELECT pg_terminate_backend(NUMBER);"
        case "prepared":
            found = f"transaction {one.who!r} was prepared {duration(one.seconds)} ago and neither committed nor not"
            return Severity.WARNING, found, f"ROLLBACK PREPARED {quote_literal(one.who)};"
        case _:
            severity = Severity.WARNING if one.bytes > GIGABYTE else Severity.ADVICE
            found = f"nobody reads replication slot {one.who!r}, which keeps {size(one.bytes)} of the server's log"
            return severity, found, f"SELECT pg_drop_replication_slot({quote_literal(one.who)});"


def check_wraparound(server: ServerState) -> Iterator[Finding]:
    """Old rows are frozen in time: a server that runs out of transaction numbers stops writing."""
    if server.frozen_age < 2 * server.freeze_max_age:
        return
    is_close = server.frozen_age > MOST_TRANSACTIONS / 2
    yield Finding(
        check="wraparound",
        severity=Severity.ERROR if is_close else Severity.WARNING,
        found=f"the oldest rows were not frozen for {server.frozen_age:,} transactions; at about "
        f"{MOST_TRANSACTIONS:,} the server stops writing",
        mend="VACUUM (FREEZE); as a superuser, after ending what keeps autovacuum from it (see transactions)",
    )


def check_clock(server: ServerState, now: datetime) -> Iterator[Finding]:
    """The server's clock and this machine's agree; ``now`` is the latter when the former was read."""
    skew = (server.now - now).total_seconds()
    if abs(skew) <= SKEW_SECONDS:
        return
    yield Finding(
        check="clock",
        severity=Severity.WARNING,
        found=f"the server's clock is {duration(abs(skew))} {'ahead of' if skew > 0 else 'behind'} this machine's",
        mend="let both follow a time server (NTP)",
    )
