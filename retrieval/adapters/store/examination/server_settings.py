"""The server's settings, as they hold for the login."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg

SETTINGS = (
    *("shared_buffers", "maintenance_work_mem", "work_mem", "random_page_cost", "jit"),
    *("max_parallel_workers_per_gather", "max_parallel_maintenance_workers", "max_wal_size"),
    *("synchronous_commit", "fsync", "full_page_writes", "autovacuum", "track_counts", "default_transaction_read_only"),
    *("autovacuum_vacuum_threshold", "autovacuum_vacuum_scale_factor", "statement_timeout"),
    *("enable_indexscan", "enable_bitmapscan", "enable_seqscan", "enable_sort", "enable_hashjoin", "enable_nestloop"),
)
"""Those that are read."""

_READ = "SELECT s.name, s.setting, coalesce(s.unit, '') FROM pg_settings s WHERE s.name = ANY(%s)"

_BYTES = {"B": 1, "kB": 1 << 10, "8kB": 8 << 10, "16kB": 16 << 10, "32kB": 32 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_UNITS: Mapping[str, float] = {**_BYTES, **_SECONDS}

Settings = Mapping[str, str | float]
"""Numbers as bytes, seconds or plain numbers; all else as PostgreSQL writes it."""


async def read_settings(connection: psycopg.AsyncConnection[Any]) -> Settings:
    """The settings by name."""
    cursor = await connection.execute(_READ, (list(SETTINGS),))
    return {name: setting_value(setting, unit) for name, setting, unit in await cursor.fetchall()}


def setting_value(setting: str, unit: str) -> str | float:
    """A setting as bytes, seconds or a plain number: ``("16384", "8kB")`` is 134217728. Names stay as they are."""
    try:
        number = float(setting)
    except ValueError:
        return setting
    return number * _UNITS.get(unit, 1)
