"""Checks of the server's settings: unsafe ones, and those worth changing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from retrieval.adapters.store.installation.examination.server_state import Settings
from retrieval.domain.diagnosis import Finding, Severity
from retrieval.jobs.doctor.findings import MEGABYTE, size

_RELOAD = "SELECT pg_reload_conf();"


@dataclass(frozen=True, slots=True)
class _Switch:
    """A setting that should not have a value."""

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
    _Switch("enable_seqscan", "off", Severity.ADVICE, "small tables are read the long way round"),
    _Switch("enable_sort", "off", Severity.ADVICE, "plans avoid what is often the fastest"),
    _Switch("enable_hashjoin", "off", Severity.ADVICE, "plans avoid what is often the fastest"),
    _Switch("enable_nestloop", "off", Severity.WARNING, "items are looked up by reading whole tables"),
    _Switch("synchronous_commit", "off", Severity.ADVICE,
            "a crash of the server may lose the last half second of what it confirmed"),
    _Switch("jit", "on", Severity.ADVICE, "compiling a query can take longer than answering it"),
)  # fmt: skip


def check_settings(settings: Settings, database_bytes: int) -> Iterator[Finding]:
    """Settings that are unsafe or make searches slow. A setting that was not read is left alone."""
    for switch in _SWITCHES:
        if settings.get(switch.name) == switch.unwanted:
            good = "off" if switch.unwanted == "on" else "on"
            yield _finding(switch.name, switch.severity, f"is {switch.unwanted}: {switch.why}", good)
    yield from _check_memory(settings, database_bytes)
    if _number(settings, "random_page_cost", 1) >= 4:
        why = "is 4 or more, as for spinning disks: the planner shuns indexes"
        yield _finding("random_page_cost", Severity.ADVICE, why, "1.1", note=" -- where the disks are solid state")
    if _number(settings, "max_parallel_workers_per_gather", 1) == 0:
        why = "is 0: comparing all vectors of a collection keeps to one core"
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
    return Finding(check="settings", severity=severity, about=name, found=f"{name} {why}", mend=mend)
