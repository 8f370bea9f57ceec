"""Checks of who may do what: the login, the roles, and row-level security."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retrieval.adapters.store.installation.examination.server_state import ServerState
from retrieval.adapters.store.installation.examination.table_state import TableState
from retrieval.adapters.store.installed_sql import Names, quote_identifier
from retrieval.domain.diagnosis import Finding, Severity
from retrieval.jobs.doctor.findings import qualified


def check_login(server: ServerState, names: Names, *, is_embedded: bool) -> Iterator[Finding]:
    """The login and the roles that it acts as. The embedded server has one login alone, its owner's."""
    app, login = quote_identifier(names.app_role), quote_identifier(server.login)
    if not server.may_act:
        yield Finding(
            check="login",
            severity=Severity.ERROR,
            found=f"login {server.login!r} may not act as role {names.app_role!r}",
            mend=f"have the schema's owner run: GRANT {app} TO {login};",
        )
    if server.is_superuser and not is_embedded:
        yield Finding(
            check="login",
            severity=Severity.WARNING,
            found=f"login {server.login!r} is a superuser or bypasses row-level security: whoever gets its password "
            "gets every tenant's data",
            mend=f"CREATE ROLE shop LOGIN PASSWORD '...'; GRANT {app} TO shop; and put it into RETRIEVAL_DATABASE_URL",
        )
    if server.may_act and not server.may_define:
        definer = quote_identifier(names.definer_role)
        yield Finding(
            check="login",
            severity=Severity.ADVICE,
            found=f"login {server.login!r} may neither build indexes nor run a worker, without {names.definer_role!r}",
            mend=f"for a worker's login, run: GRANT {definer} TO {login};",
        )


def check_roles(server: ServerState) -> Iterator[Finding]:
    """The installation's own roles, for which row-level security must hold and which nobody may log in as."""
    for role in server.unsafe_roles:
        yield Finding(
            check="roles",
            severity=Severity.ERROR,
            about=role,
            found=f"role {role!r} may log in or bypass row-level security: tenants are not kept apart",
            mend=f"ALTER ROLE {quote_identifier(role)} NOLOGIN NOSUPERUSER NOBYPASSRLS;",
        )


def check_isolation(tables: Sequence[TableState], names: Names) -> Iterator[Finding]:
    """Row-level security is forced on every table with tenants' rows, and the application role can use its own."""
    for table in tables:
        if table.is_private:
            yield from _check_security(table, names)
        yield from _check_rights(table, names)


def _check_security(table: TableState, names: Names) -> Iterator[Finding]:
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
            found=f"policy {policy!r} on table {table.name!r} shows other rows than a tenant's own: tenants can see "
            "each other's",
            mend=f"DROP POLICY {quote_identifier(policy)} ON {name};",
        )
    if not table.is_shown:
        schema, app = quote_identifier(names.schema), quote_identifier(names.app_role)
        of_collections = f"collection_id IN (SELECT c.collection_id FROM {schema}.collections c)"  # noqa: S608 - quoted, and shown alone
        own = f"tenant_id = {schema}.current_tenant()" if table.has_tenant else of_collections
        yield _unsafe(
            table,
            found=f"no policy shows role {names.app_role!r} its tenant's rows of table {table.name!r}: it seems empty",
            mend=f"CREATE POLICY {quote_identifier(f'{table.name}_app')} ON {name} TO {app} USING ({own}) "
            f"WITH CHECK ({own});",
        )


def _unsafe(table: TableState, *, found: str, mend: str) -> Finding:
    return Finding(check="isolation", severity=Severity.ERROR, about=table.name, found=found, mend=mend)


NOT_OWED = {"tenants": frozenset({"INSERT", "UPDATE", "DELETE"}), "api_keys": frozenset({"UPDATE", "DELETE"})}
"""What the application role is not given on a table of which a policy shows it rows."""


def _check_rights(table: TableState, names: Names) -> Iterator[Finding]:
    lacking = [one for one in table.lacking if one not in NOT_OWED.get(table.name, frozenset())]
    if table.is_granted and not lacking:
        return
    rights = lacking if table.is_granted else ["SELECT", *lacking]
    may_not = f"{', '.join(lacking)} on" if table.is_granted else "read"
    yield Finding(
        check="privileges",
        severity=Severity.ERROR,
        about=table.name,
        found=f"role {names.app_role!r} may not {may_not} table {table.name!r}",
        mend=f"GRANT {', '.join(rights)} ON {qualified(names.schema, table.name)} "
        f"TO {quote_identifier(names.app_role)};",
    )
