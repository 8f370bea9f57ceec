"""Checks of tables and indexes: whole, of a sensible size, cleaned and counted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from retrieval.adapters.store.installation.examination.server_state import Settings
from retrieval.adapters.store.installation.examination.table_state import IndexState, TableState
from retrieval.domain.diagnosis import Finding, Severity
from retrieval.jobs.doctor.findings import qualified

LEAST_ROWS = 10_000
"""Tables with fewer dead or changed rows are left to the server."""

STALE = 0.25
"""The planner's statistics are stale when this share of the rows has changed; the server renews them at a tenth."""

BEHIND = 2.0
"""Autovacuum is behind when there are this many times the dead rows at which it should have begun."""

_LEFTOVER = re.compile(r"_cc(new|old)\d*$")


def check_indexes(indexes: Sequence[IndexState], schema: str, owners: Mapping[str, str]) -> Iterator[Finding]:
    """No index is invalid. ``owners``: the collections of HNSW indexes, by the index's name."""
    for index in indexes:
        if index.is_valid or index.is_being_built:
            continue
        name, of = qualified(schema, index.name), _LEFTOVER.sub("", index.name)
        job = f"retrieval jobs run indexes --collection {owners[of]}" if of in owners else ""
        if of != index.name:
            found, mend = "is what an interrupted rebuild left", job or f"DROP INDEX CONCURRENTLY {name};"
        elif job:
            found, mend = "is invalid: searches compare all vectors", job
        else:
            found, mend = "is invalid: nothing may use it", f"REINDEX INDEX CONCURRENTLY {name};"
        yield Finding(
            check="indexes",
            severity=Severity.ERROR,
            about=index.name,
            found=f"index {index.name!r} on {index.table!r} {found}",
            mend=mend,
        )


@dataclass(frozen=True, slots=True)
class ExpectedIndex:
    """An index that the schema is made with."""

    table: str
    statement: str
    """Makes it again."""


def check_missing(
    tables: Sequence[TableState], indexes: Sequence[IndexState], expected: Mapping[str, ExpectedIndex]
) -> Iterator[Finding]:
    """Every table and index that the schema is made with is there."""
    present, named = {index.name for index in indexes}, {table.name for table in tables}
    for table in sorted({one.table for one in expected.values()} - named):
        yield Finding(
            check="tables",
            severity=Severity.ERROR,
            about=table,
            found=f"table {table!r}, with which the schema is made, is gone",
            mend="restore it from a backup; retrieval db sql prints how it is made",
        )
    for name in sorted(expected.keys() - present):
        if expected[name].table in named:
            yield Finding(
                check="indexes",
                severity=Severity.ERROR,
                about=name,
                found=f"index {name!r}, with which the schema is made, is gone: what needs it reads whole tables",
                mend=expected[name].statement,
            )


def check_tables(tables: Sequence[TableState], schema: str, settings: Settings) -> Iterator[Finding]:
    """Tables that survive a crash, are cleaned, and whose statistics are fresh."""
    for table in tables:
        name = qualified(schema, table.name)
        if not table.is_logged:
            yield Finding(
                check="tables",
                severity=Severity.ERROR,
                about=table.name,
                found=f"table {table.name!r} is unlogged: a crash of the server empties it",
                mend=f"ALTER TABLE {name} SET LOGGED;",
            )
        if not table.is_vacuumed:
            yield Finding(
                check="tables",
                severity=Severity.WARNING,
                about=table.name,
                found=f"autovacuum is turned off for table {table.name!r}",
                mend=f"ALTER TABLE {name} RESET (autovacuum_enabled);",
            )
        yield from _check_dead(table, name, settings)
        yield from _check_statistics(table, name)


def _check_dead(table: TableState, name: str, settings: Settings) -> Iterator[Finding]:
    share = table.dead_share
    if share is None:
        share = float(settings.get("autovacuum_vacuum_scale_factor", 0.2))
    due = float(settings.get("autovacuum_vacuum_threshold", 50)) + share * table.live
    if table.dead < max(LEAST_ROWS, BEHIND * due):
        return
    when = f"was cleaned last at {table.vacuumed_at:%Y-%m-%d %H:%M} UTC" if table.vacuumed_at else "was never cleaned"
    yield Finding(
        check="bloat",
        severity=Severity.WARNING,
        about=table.name,
        found=f"table {table.name!r} holds {table.dead:,} dead rows beside {table.live:,} live ones and {when}: "
        "autovacuum does not keep up, or something keeps it from removing them",
        mend=f"VACUUM (ANALYZE) {name};",
    )


def _check_statistics(table: TableState, name: str) -> Iterator[Finding]:
    if table.live + table.changed < LEAST_ROWS or table.live == 0:
        return
    if table.analyzed_at is not None and table.changed < max(STALE * table.live, LEAST_ROWS / 10):
        return
    when = f"{table.changed:,} of {table.live:,} rows changed since" if table.analyzed_at else "there are none yet"
    yield Finding(
        check="statistics",
        # The server makes the first ones a minute after a table was filled.
        severity=Severity.WARNING if table.analyzed_at else Severity.ADVICE,
        about=table.name,
        found=f"the planner's statistics of table {table.name!r} are stale: {when}",
        mend=f"ANALYZE {name};",
    )
