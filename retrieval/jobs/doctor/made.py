"""Checks that what the schema is made with is there: its functions, and the columns of its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from retrieval.adapters.store.installation.examination.table_state import TableState
from retrieval.adapters.store.installed_sql import directory
from retrieval.domain.diagnosis import Finding, Severity

_FUNCTION = re.compile(r"^\s*CREATE (?:OR REPLACE )?FUNCTION (?!procrastinate_)(\w+) ?\(", re.MULTILINE)


def expected_functions() -> frozenset[str]:
    """The names of the functions that the installed SQL makes in the schema; the queue's have one of their own."""
    texts = (path.read_text(encoding="utf-8") for path in directory("sql").rglob("*.sql"))
    return frozenset(name for text in texts for name in _FUNCTION.findall(text))


def expected_columns() -> dict[str, frozenset[str]]:
    """The columns of each table that the schema is made with."""
    from retrieval.adapters.store.tables import metadata

    return {table.name: frozenset(column.name for column in table.columns) for table in metadata.tables.values()}


def check_functions(present: frozenset[str], expected: frozenset[str]) -> Iterator[Finding]:
    """Every function is there, by its name."""
    for name in sorted(expected - present):
        yield Finding(
            check="functions",
            severity=Severity.ERROR,
            about=name,
            found=f"function {name!r}, with which the schema is made, is gone: calls that need it fail",
            mend=f"restore it from a backup, or run the statements for {name} that this prints: retrieval db sql",
        )


def check_columns(tables: Sequence[TableState], expected: Mapping[str, frozenset[str]]) -> Iterator[Finding]:
    """Every column of the tables that are there."""
    for table in tables:
        for name in sorted(expected.get(table.name, frozenset()) - set(table.columns)):
            yield Finding(
                check="tables",
                severity=Severity.ERROR,
                about=f"{table.name}.{name}",
                found=f"column {name!r} of table {table.name!r}, with which the schema is made, is gone",
                mend="restore it from a backup; retrieval db sql prints how it is made",
            )
