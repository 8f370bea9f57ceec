"""Checks of the schema's parts, its tables and indexes, and of the isolation of tenants. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from retrieval.adapters.store.installation.examination import IndexFacts, TableFacts
from retrieval.adapters.store.installed_sql import Names, directory, qualified, quote_identifier
from retrieval.adapters.store.search.indexes import stem_of
from retrieval.domain.diagnosis import Finding, Severity

_FUNCTION = re.compile(r"^\s*CREATE (?:OR REPLACE )?FUNCTION (\w+)", re.MULTILINE)
_PARTITION = re.compile(r"^CREATE TABLE (\w+) PARTITION OF", re.MULTILINE)


def check_parts(tables: Sequence[TableFacts], functions: Sequence[str]) -> Iterator[Finding]:
    """Check that every table, column and function that the migrations create exists, by its name."""
    expected_tables, expected_functions = expected_parts()
    columns = {table.name: table.columns for table in tables}
    gone = [("table", name) for name in sorted(expected_tables.keys() - columns.keys())]
    for table in sorted(expected_tables.keys() & columns.keys()):
        gone += [("column", f"{table}.{name}") for name in sorted(expected_tables[table].difference(columns[table]))]
    gone += [("function", name) for name in sorted(expected_functions.difference(functions))]
    for kind, name in gone:
        found = f"{kind} {name!r}, a part of the schema, is gone: what needs it fails"
        mend = "restore it from a backup; retrieval db sql prints how it is made"
        yield Severity.ERROR.finding("schema", found, mend, about=name)


def expected_parts() -> tuple[Mapping[str, frozenset[str]], frozenset[str]]:
    """The columns of each table, and the functions, that the migrations create; without the queue's and a cluster's."""
    from retrieval.adapters.store.tables import TABLES

    texts = [path.read_text(encoding="utf-8") for path in directory("sql").glob("*/*.sql")
             if path.parent.name != "cluster"]  # fmt: skip
    functions = frozenset(name for text in texts for name in _FUNCTION.findall(text))
    partitions = {name: frozenset[str]() for text in texts for name in _PARTITION.findall(text)}
    return {name: frozenset(table.columns.keys()) for name, table in TABLES.items()} | partitions, functions


def check_missing(tables: Sequence[TableFacts], indexes: Sequence[IndexFacts], schema: str) -> Iterator[Finding]:
    """Check that every index and key that the migrations create exists, by its name."""
    names, present = {table.name for table in tables}, {index.name for index in indexes}
    for name, (table, statement) in expected_indexes(schema).items():
        if table in names and name not in present:
            found = f"index {name!r}, a part of the schema, is gone: queries that need it read whole tables"
            yield Severity.ERROR.finding("indexes", found, statement, about=name)


def expected_indexes(schema: str) -> Mapping[str, tuple[str, str]]:
    """The table and the creating statement of each index and key of the migrations, by name."""
    from retrieval.adapters.store.tables import indexes, primary_keys

    expected = {
        name: (index.table, index.statement.replace(f" ON {index.table}", f" ON {qualified(schema, index.table)}"))
        for name, index in indexes().items()
    }
    for name, key in primary_keys().items():
        columns = ", ".join(map(quote_identifier, key.columns))
        constraint = f"ADD CONSTRAINT {quote_identifier(name)} PRIMARY KEY ({columns})"
        expected[name] = (key.table, f"ALTER TABLE {qualified(schema, key.table)} {constraint};")
    return expected


_LEFTOVER = re.compile(r"_cc(new|old)\d*$")


def check_indexes(indexes: Sequence[IndexFacts], schema: str, owners: Mapping[str, str]) -> Iterator[Finding]:
    """Check that no index is invalid. ``owners``: the collections of HNSW indexes, by how the index's name begins."""
    for index in indexes:
        if index.is_valid or index.is_being_built:
            continue
        name, stem = qualified(schema, index.name), stem_of(index.name)
        job = f"retrieval jobs run indexes --collection {owners[stem]}" if stem in owners else ""
        if _LEFTOVER.search(index.name):
            found, mend = "was left by an interrupted rebuild", job or f"DROP INDEX CONCURRENTLY {name};"
        elif job:
            found, mend = "is invalid: searches compare all vectors", job
        else:
            found, mend = "is invalid: nothing may use it", f"REINDEX INDEX CONCURRENTLY {name};"
        yield Severity.ERROR.finding(
            "indexes", f"index {index.name!r} on {index.table!r} {found}", mend, about=index.name
        )


LEAST_ROWS = 10_000
"""Tables with fewer dead or changed rows are left to the server."""

STALE = 0.25
"""The planner's statistics are stale when this share of the rows has changed; the server renews them at a tenth."""

BLOATED = 0.5
"""Autovacuum is behind when there are this many dead rows for each live one; the server cleans at a fifth."""


def check_tables(tables: Sequence[TableFacts], schema: str) -> Iterator[Finding]:
    """Check that tables are vacuumed and have fresh statistics."""
    for table in tables:
        name = qualified(schema, table.name)
        if not table.is_vacuumed:
            found = f"autovacuum is turned off for table {table.name!r}"
            mend = f"ALTER TABLE {name} RESET (autovacuum_enabled);"
            yield Severity.WARNING.finding("tables", found, mend, about=table.name)
        if table.dead >= max(LEAST_ROWS, BLOATED * table.live):
            yield Severity.WARNING.finding(
                "bloat",
                f"table {table.name!r} holds {table.dead:,} dead rows beside {table.live:,} live ones: autovacuum does "
                "not keep up, or something keeps it from removing them",
                f"VACUUM (ANALYZE) {name};",
                about=table.name,
            )
        yield from _check_statistics(table, name)


def _check_statistics(table: TableFacts, name: str) -> Iterator[Finding]:
    if table.live + table.changed < LEAST_ROWS or table.live == 0:
        return
    if table.is_analyzed and table.changed < max(STALE * table.live, LEAST_ROWS / 10):
        return
    when = f"{table.changed:,} changes since, in {table.live:,} rows" if table.is_analyzed else "there are none yet"
    # Only advice, because it is so after each large write, until autovacuum comes by.
    yield Severity.ADVICE.finding(
        "statistics",
        f"the planner's statistics of table {table.name!r} are stale: {when}; autovacuum makes new ones within "
        "minutes, while the server runs",
        f"ANALYZE {name};",
        about=table.name,
    )


NOT_OWED = {"tenants": frozenset({"INSERT", "UPDATE", "DELETE"}), "api_keys": frozenset({"UPDATE", "DELETE"})}
"""The privileges that the application role lacks on purpose, on tables with a policy for it."""


def check_isolation(tables: Sequence[TableFacts], names: Names, *, is_distributed: bool = False) -> Iterator[Finding]:
    """Check that row-level security is forced on tables with tenants' rows, and the application role can use them."""
    for table in tables:
        name = qualified(names.schema, table.name)
        if table.is_private:
            for found, mend in _security_faults(table, name, names, is_distributed=is_distributed):
                yield Severity.ERROR.finding("isolation", found, mend, about=table.name)
        lacking = [privilege for privilege in table.lacking if privilege not in NOT_OWED.get(table.name, ())]
        if lacking:
            found = f"role {names.app_role!r} may not {', '.join(lacking)} on table {table.name!r}"
            mend = f"GRANT {', '.join(lacking)} ON {name} TO {quote_identifier(names.app_role)};"
            yield Severity.ERROR.finding("privileges", found, mend, about=table.name)


def _security_faults(table: TableFacts, name: str, names: Names, *, is_distributed: bool) -> Iterator[tuple[str, str]]:
    """The faults of a table with tenants' rows, each with its remedy."""
    if not table.is_forced:
        yield (
            f"row-level security is not forced on table {table.name!r}: tenants can see each other's rows",
            f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY; ALTER TABLE {name} FORCE ROW LEVEL SECURITY;",
        )
    for policy in table.loose_policies:
        yield (
            f"policy {policy!r} on table {table.name!r} shows rows of other tenants: tenants can see each other's",
            f"DROP POLICY {quote_identifier(policy)} ON {name};",
        )
    if not table.is_shown:
        schema, policy, app = map(quote_identifier, (names.schema, f"{table.name}_app", names.app_role))
        if "tenant_id" in table.columns:
            own = f"tenant_id = {schema}.current_tenant()"
        elif is_distributed:
            own = f"collection_id = ANY ({schema}.own_collections())"
        else:
            own = f"collection_id IN (SELECT c.collection_id FROM {schema}.collections c)"  # noqa: S608 - quoted, and shown alone
        yield (
            f"no policy shows role {names.app_role!r} its tenant's rows of table {table.name!r}: it seems empty",
            f"CREATE POLICY {policy} ON {name} TO {app} USING ({own}) WITH CHECK ({own});",
        )
