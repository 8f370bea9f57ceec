"""Checks of the schema: its functions and columns, its tables and indexes, and the roles' privileges. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from retrieval.adapters.store.installation.examination.installation import ServerState, Settings
from retrieval.adapters.store.installation.examination.table_state import IndexState, TableState
from retrieval.adapters.store.installed_sql import Names, directory, qualified, quote_identifier
from retrieval.adapters.store.search.indexes import stem_of
from retrieval.domain.diagnosis import Finding, Severity

_FUNCTION = re.compile(r"^\s*CREATE (?:OR REPLACE )?FUNCTION (\w+) ?\(", re.MULTILINE)


def expected_functions() -> frozenset[str]:
    """The names of the functions that the installed SQL creates in the schema, without the queue's and a cluster's."""
    paths = (path for path in directory("sql").rglob("*.sql") if path.parent.name != "cluster")
    texts = (path.read_text(encoding="utf-8") for path in paths)
    return frozenset(name for text in texts for name in _FUNCTION.findall(text))


def expected_columns() -> dict[str, frozenset[str]]:
    """The columns of each table that the schema's migrations create."""
    from retrieval.adapters.store.tables import TABLES

    return {name: frozenset(column.name for column in table.columns) for name, table in TABLES.items()}


def check_functions(present: frozenset[str], expected: frozenset[str]) -> Iterator[Finding]:
    """Check that every function exists, by its name."""
    for name in sorted(expected - present):
        yield Severity.ERROR.finding(
            "functions",
            f"function {name!r}, a part of the schema, is gone: calls that need it fail",
            f"restore it from a backup, or run the statements for {name} that this prints: retrieval db sql",
            about=name,
        )


def check_columns(tables: Sequence[TableState], expected: Mapping[str, frozenset[str]]) -> Iterator[Finding]:
    """Check that each existing table has all of its columns."""
    for table in tables:
        for name in sorted(expected.get(table.name, frozenset()) - set(table.columns)):
            yield Severity.ERROR.finding(
                "tables",
                f"column {name!r} of table {table.name!r}, a part of the schema, is gone",
                "restore it from a backup; retrieval db sql prints how it is made",
                about=f"{table.name}.{name}",
            )


LEAST_ROWS = 10_000
"""Tables with fewer dead or changed rows are left to the server."""

STALE = 0.25
"""The planner's statistics are stale when this share of the rows has changed; the server renews them at a tenth."""

BEHIND = 2.0
"""Autovacuum is behind when there are this many times the dead rows at which it should have begun."""

_LEFTOVER = re.compile(r"_cc(new|old)\d*$")


def check_indexes(indexes: Sequence[IndexState], schema: str, owners: Mapping[str, str]) -> Iterator[Finding]:
    """Check that no index is invalid. ``owners``: the collections of HNSW indexes, by how the index's name begins."""
    for index in indexes:
        if index.is_valid or index.is_being_built:
            continue
        name, of, stem = qualified(schema, index.name), _LEFTOVER.sub("", index.name), stem_of(index.name)
        job = f"retrieval jobs run indexes --collection {owners[stem]}" if stem in owners else ""
        if of != index.name:
            found, mend = "was left by an interrupted rebuild", job or f"DROP INDEX CONCURRENTLY {name};"
        elif job:
            found, mend = "is invalid: searches compare all vectors", job
        else:
            found, mend = "is invalid: nothing may use it", f"REINDEX INDEX CONCURRENTLY {name};"
        yield Severity.ERROR.finding(
            "indexes", f"index {index.name!r} on {index.table!r} {found}", mend, about=index.name
        )


@dataclass(frozen=True, slots=True)
class ExpectedIndex:
    """An index that the schema's migrations create."""

    table: str
    statement: str
    """The statement that creates it again."""


def check_missing(
    tables: Sequence[TableState], indexes: Sequence[IndexState], expected: Mapping[str, ExpectedIndex]
) -> Iterator[Finding]:
    """Check that every table and index of the schema's migrations exists."""
    present, named = {index.name for index in indexes}, {table.name for table in tables}
    for table in sorted({index.table for index in expected.values()} - named):
        yield Severity.ERROR.finding(
            "tables",
            f"table {table!r}, a part of the schema, is gone",
            "restore it from a backup; retrieval db sql prints how it is made",
            about=table,
        )
    for name in sorted(expected.keys() - present):
        if expected[name].table in named:
            yield Severity.ERROR.finding(
                "indexes",
                f"index {name!r}, a part of the schema, is gone: queries that need it read whole tables",
                expected[name].statement,
                about=name,
            )


def check_tables(tables: Sequence[TableState], schema: str, settings: Settings) -> Iterator[Finding]:
    """Check that tables survive a crash, are vacuumed, and have fresh statistics."""
    for table in tables:
        name = qualified(schema, table.name)
        if not table.is_logged:
            yield Severity.ERROR.finding(
                "tables",
                f"table {table.name!r} is unlogged: a crash of the server empties it",
                f"ALTER TABLE {name} SET LOGGED;",
                about=table.name,
            )
        if not table.is_vacuumed:
            yield Severity.WARNING.finding(
                "tables",
                f"autovacuum is turned off for table {table.name!r}",
                f"ALTER TABLE {name} RESET (autovacuum_enabled);",
                about=table.name,
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
    yield Severity.WARNING.finding(
        "bloat",
        f"table {table.name!r} holds {table.dead:,} dead rows beside {table.live:,} live ones and {when}: "
        "autovacuum does not keep up, or something keeps it from removing them",
        f"VACUUM (ANALYZE) {name};",
        about=table.name,
    )


def _check_statistics(table: TableState, name: str) -> Iterator[Finding]:
    if table.live + table.changed < LEAST_ROWS or table.live == 0:
        return
    if table.analyzed_at is not None and table.changed < max(STALE * table.live, LEAST_ROWS / 10):
        return
    when = f"{table.changed:,} of {table.live:,} rows changed since" if table.analyzed_at else "there are none yet"
    yield (Severity.WARNING if table.analyzed_at else Severity.ADVICE).finding(
        "statistics",
        f"the planner's statistics of table {table.name!r} are stale: {when}",
        f"ANALYZE {name};",
        about=table.name,
    )


def check_login(server: ServerState, names: Names, *, is_embedded: bool) -> Iterator[Finding]:
    """Check the login and the roles that it acts as. The embedded server has one login alone, its owner's."""
    app, login = quote_identifier(names.app_role), quote_identifier(server.login)
    if not server.may_act:
        yield Severity.ERROR.finding(
            "login",
            f"login {server.login!r} may not act as role {names.app_role!r}",
            f"have the schema's owner run: GRANT {app} TO {login};",
        )
    if server.is_superuser and not is_embedded:
        yield Severity.WARNING.finding(
            "login",
            f"login {server.login!r} is a superuser or bypasses row-level security: whoever gets its password "
            "gets every tenant's data",
            f"CREATE ROLE shop LOGIN PASSWORD '...'; GRANT {app} TO shop; and put it into RETRIEVAL_DATABASE_URL",
        )
    if server.may_act and not server.may_define:
        definer = quote_identifier(names.definer_role)
        yield Severity.ADVICE.finding(
            "login",
            f"login {server.login!r} may neither build indexes nor run a worker, without {names.definer_role!r}",
            f"for a worker's login, run: GRANT {definer} TO {login};",
        )


def check_roles(server: ServerState) -> Iterator[Finding]:
    """Check the installation's own roles: row-level security must hold for them, and nobody may log in as them."""
    for role in server.unsafe_roles:
        yield Severity.ERROR.finding(
            "roles",
            f"role {role!r} may log in or bypass row-level security: tenants are not kept apart",
            f"ALTER ROLE {quote_identifier(role)} NOLOGIN NOSUPERUSER NOBYPASSRLS;",
            about=role,
        )


def check_isolation(tables: Sequence[TableState], names: Names, *, is_distributed: bool = False) -> Iterator[Finding]:
    """Check that row-level security is forced on tables with tenants' rows, and the application role can use them."""
    for table in tables:
        if table.is_private:
            yield from _check_security(table, names, is_distributed=is_distributed)
        yield from _check_rights(table, names)


def _check_security(table: TableState, names: Names, *, is_distributed: bool) -> Iterator[Finding]:
    name = qualified(names.schema, table.name)
    if not table.is_forced:
        yield _unsafe(
            table,
            found=f"row-level security is not forced on table {table.name!r}: tenants can see each other's rows",
            mend=f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY; ALTER TABLE {name} FORCE ROW LEVEL SECURITY;",
        )
    for policy in table.loose_policies:
        yield _unsafe(
            table,
            found=f"policy {policy!r} on table {table.name!r} shows rows of other tenants: tenants can see "
            "each other's",
            mend=f"DROP POLICY {quote_identifier(policy)} ON {name};",
        )
    if not table.is_shown:
        schema, app = quote_identifier(names.schema), quote_identifier(names.app_role)
        of_collections = f"collection_id IN (SELECT c.collection_id FROM {schema}.collections c)"  # noqa: S608 - quoted, and shown alone
        if is_distributed:
            of_collections = f"collection_id = ANY ({schema}.own_collections())"
        own = f"tenant_id = {schema}.current_tenant()" if table.has_tenant else of_collections
        yield _unsafe(
            table,
            found=f"no policy shows role {names.app_role!r} its tenant's rows of table {table.name!r}: it seems empty",
            mend=f"CREATE POLICY {quote_identifier(f'{table.name}_app')} ON {name} TO {app} USING ({own}) "
            f"WITH CHECK ({own});",
        )


def _unsafe(table: TableState, *, found: str, mend: str) -> Finding:
    return Severity.ERROR.finding("isolation", found, mend, about=table.name)


NOT_OWED = {"tenants": frozenset({"INSERT", "UPDATE", "DELETE"}), "api_keys": frozenset({"UPDATE", "DELETE"})}
"""The privileges that the application role lacks on purpose, on tables with a policy for it."""


def _check_rights(table: TableState, names: Names) -> Iterator[Finding]:
    lacking = [privilege for privilege in table.lacking if privilege not in NOT_OWED.get(table.name, frozenset())]
    if table.is_granted and not lacking:
        return
    rights = lacking if table.is_granted else ["SELECT", *lacking]
    may_not = f"{', '.join(lacking)} on" if table.is_granted else "read"
    yield Severity.ERROR.finding(
        "privileges",
        f"role {names.app_role!r} may not {may_not} table {table.name!r}",
        f"GRANT {', '.join(rights)} ON {qualified(names.schema, table.name)} TO {quote_identifier(names.app_role)};",
        about=table.name,
    )
