"""The schema on a Citus cluster: all rows of a collection are on one node.

``distribute`` is run on the coordinator after ``upgrade``. See docs/decisions/0042-citus.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

from retrieval.adapters.store.installed_sql import Names, installed_sql, quote_identifier, quote_literal
from retrieval.adapters.store.translate import translated
from retrieval.domain.errors import DatabaseError, MissingPrivilegeError, UnsupportedDatabaseError

Connection = psycopg.Connection[Any]

OWN_ROWS = "collection_id = ANY (own_collections())"
"""The condition of a policy on a cluster; own_collections is in sql/cluster/tables.sql."""

EVERYWHERE = ("tenants", "embedding_spaces", "collections", "analyst_logins", "api_keys")
"""The small tables that every node has whole: policies and functions read them beside the rows of a collection."""

FIRST = "learning_states"
"""The table that is distributed first; the others lie beside it. Views and functions lead to it from all others."""

_OWNED = """
    SELECT c.relname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'collection_id'
    WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND c.relname <> ALL (%(everywhere)s)
    ORDER BY c.relname <> %(first)s, c.relname
"""
_KEYS = """
    SELECT
        k.conrelid::regclass::text, k.conname, pg_get_constraintdef(k.oid),
        EXISTS (
            SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'collection_id'
        ) AND c.relname <> 'collections'
    FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid
    WHERE k.contype = 'f' AND k.conparentid = 0 AND k.connamespace = %(schema)s::regnamespace
    ORDER BY k.conname
"""
_POLICIES = """
    SELECT p.polname, p.polrelid::regclass::text, p.polcmd::text, p.polwithcheck IS NOT NULL,
        ARRAY(SELECT r.rolname::text FROM pg_roles AS r WHERE r.oid = ANY (p.polroles))
    FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid
    WHERE c.relnamespace = %(schema)s::regnamespace
        AND pg_get_expr(p.polqual, p.polrelid) LIKE '%%SELECT c.collection_id%%FROM%%collections c%%'
"""
_FUNCTIONS = """
    SELECT
        p.oid::regprocedure::text, pg_get_functiondef(p.oid), pg_get_userbyid(p.proowner),
        l.lanname = 'sql' AND p.provolatile <> 'i', p.proretset,
        -- What writes rows of a collection, and what that calls, has the rights of the caller: a transaction has a
        -- connection to a node for each role, and two of them would wait for each other.
        p.provolatile = 'v' AND p.proargnames[1] = 'collection'
            OR p.proname IN ('record_feedback', 'window_parts', 'reached_from'),
        p.proname ~ '^analytics_',
        ARRAY(SELECT r.rolname::text FROM aclexplode(p.proacl) AS g JOIN pg_roles AS r ON r.oid = g.grantee)
    FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
    WHERE p.pronamespace = %(schema)s::regnamespace AND p.prokind = 'f'
        -- Those that take or give a type of the schema's are called here alone, as figures are.
        AND (p.proname ~ '^analytics_' OR NOT EXISTS (
            SELECT FROM unnest(p.proargtypes || p.prorettype) AS given (type)
            JOIN pg_type AS t ON given.type IN (t.oid, t.typarray)
            JOIN pg_class AS c ON c.oid = t.typrelid
            WHERE c.relkind = 'c' AND c.relnamespace = p.pronamespace
        ))
    ORDER BY p.oid
"""
_VIEWS = """
    SELECT
        c.relname, pg_get_viewdef(c.oid), a.typed, a.collated,
        ARRAY(SELECT DISTINCT r.rolname::text FROM aclexplode(c.relacl) AS g JOIN pg_roles AS r ON r.oid = g.grantee)
    FROM pg_class AS c CROSS JOIN LATERAL (
        SELECT
            string_agg(format('%%I %%s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) AS typed,
            string_agg(format('%%I %%s', attname, 'COLLATE ' || nullif(attcollation, 0)::regcollation), ', '
                ORDER BY attnum) AS collated
        FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0
    ) AS a
    WHERE c.oid = 'analytics_unused_items'::regclass AND to_regproc('analytics_unused_items_rows') IS NULL
"""
"""The lists of figures that Citus cannot make of several collections at once."""
_WORDS = (
    # Citus sees by its value which node a parameter leads to, and a plan for any value has none.
    (re.compile(r"\s*SET plan_cache_mode (?:TO|=) '?force_generic_plan'?"), ""),
    # Expressions that hide the collection's key from the planner would also hide the node from Citus.
    (re.compile(r"collection_id \+ 0 = "), "collection_id = "),
    (re.compile(r"collection_id IN \(SELECT c\.collection_id FROM collections c\)"), OWN_ROWS),
)
_QUERY = re.compile(
    r"(?P<head>.*?RETURNS (?P<kind>[^\n]+)\n.*?)"
    r"(?:AS \$function\$(?P<quoted>.*)\$function\$|BEGIN ATOMIC(?P<atomic>.*)END|RETURN (?P<expression>.*))\s*",
    re.DOTALL,
)
"""A function in SQL, whose body is a text, a query or an expression."""
_EACH = (
    "FOR each_id IN SELECT own.collection_id FROM collections AS own WHERE collection IS NULL OR own.name = collection"
)
_OF_COLLECTIONS = re.compile(r"\b(collections|analytics_rated) (\w+)")
"""A table of all collections that the figures read, with its alias."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The tables of a distributed schema."""

    nodes: int
    """The nodes that hold collections."""
    distributed: tuple[str, ...]
    """The tables whose rows lie with their collection."""
    everywhere: tuple[str, ...]
    """The tables that every node has whole."""


def distribute(url: str, schema: str, *, shards: int = 32) -> Distribution:
    """Distribute the schema's tables and their rows by collection, and create the functions on every node.

    Run again, it goes on where it was interrupted, and brings the nodes that came since up to date.

    Raises ``UnsupportedDatabaseError`` where the database is no coordinator of a cluster.
    """
    names = Names(schema)
    given = {"schema": schema, "everywhere": list(EVERYWHERE), "first": FIRST}
    with translated(url), psycopg.connect(url, prepare_threshold=None, autocommit=True) as connection:
        nodes = _nodes_of(connection)
        path = ", ".join(map(quote_identifier, dict.fromkeys([schema, _vector_schema(connection)])))
        for setting in (f"search_path = {path}, pg_temp", "client_min_messages = warning"):
            connection.execute(f"SET {setting}".encode())
        _on_every_node(connection, [installed_sql("cluster/roles", names)])
        owned = tuple(str(name) for (name,) in connection.execute(_OWNED, given))
        with connection.transaction():
            # Again too: a revision of the schema may have put one server's functions in their place.
            connection.execute(installed_sql("cluster/tables", names).encode())
            if not _is_distributed(connection, given):
                _distribute_tables(connection, given, owned, shards)
        _install_functions(connection, path, given)
        return Distribution(nodes, owned, EVERYWHERE)


def rebalance(url: str) -> int:
    """Move collections between the nodes until each holds about as much; writes wait meanwhile. Gives the moves.

    Raises ``UnsupportedDatabaseError`` where the database is no coordinator of a cluster.
    """
    with translated(url), psycopg.connect(url, prepare_threshold=None, autocommit=True) as connection:
        _nodes_of(connection)
        moves = connection.execute("SELECT count(*) FROM get_rebalance_table_shards_plan()").fetchone()
        connection.execute("SELECT rebalance_table_shards(shard_transfer_mode => 'block_writes')")
        return int(moves[0]) if moves else 0


def _nodes_of(connection: Connection) -> int:
    if _value(connection, "SELECT to_regclass('pg_catalog.pg_dist_node') IS NULL"):
        raise UnsupportedDatabaseError(
            "the extension citus is not in this database; have a superuser run there: CREATE EXTENSION citus;"
        )
    if not _value(connection, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"):
        raise MissingPrivilegeError("only a superuser may distribute the schema: it makes roles on every node")
    nodes = _value(connection, "SELECT count(*) FROM pg_dist_node WHERE shouldhaveshards AND isactive")
    if not nodes or _value(connection, "SELECT groupid <> 0 FROM pg_dist_local_group"):
        raise UnsupportedDatabaseError("this is no coordinator with nodes; see docs/how-to/cluster.md")
    return int(nodes)


def _value(connection: Connection, query: LiteralString, given: Mapping[str, Any] | None = None) -> Any:
    row = connection.execute(query, given).fetchone()
    return row[0] if row else None


def _vector_schema(connection: Connection) -> str:
    found = _value(connection, "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'")
    return str(found or "public")


def _is_distributed(connection: Connection, given: Mapping[str, Any]) -> bool:
    query = "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass(%(first)s))"
    return bool(_value(connection, query, given))


def _distribute_tables(connection: Connection, given: Mapping[str, Any], owned: Sequence[str], shards: int) -> None:
    # After a foreign key, Citus writes to the shards of a transaction on one connection a node.
    connection.execute("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
    with _without_foreign_keys(connection, given):
        _replace_policies(connection, given)
        for name in owned:
            beside = "shard_count => %s" if name == FIRST else "colocate_with => %s"
            connection.execute(
                f"SELECT create_distributed_table(%s, 'collection_id', {beside})".encode(),
                (name, shards if name == FIRST else FIRST),
            )
        for name in EVERYWHERE:
            connection.execute("SELECT create_reference_table(%s)", (name,))


@contextmanager
def _without_foreign_keys(connection: Connection, given: Mapping[str, Any]) -> Iterator[None]:
    """Take the foreign keys away meanwhile: tables that refer to each other can only be distributed one by one.

    Those of other tables than the distributed ones stay away: with each, whoever writes would lock what it refers to,
    on every node, and need the right to change it.
    """
    keys = connection.execute(_KEYS, given).fetchall()
    for table, key, _, _ in keys:
        connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {quote_identifier(key)}".encode())
    yield
    for table, key, definition, is_owned in keys:
        if is_owned:
            connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT {quote_identifier(key)} {definition}".encode())


def _replace_policies(connection: Connection, given: Mapping[str, Any]) -> None:
    """Replace policies that have a subquery, which distributed tables cannot have."""
    for policy, table, command, checks, roles in connection.execute(_POLICIES, given).fetchall():
        name = quote_identifier(policy)
        connection.execute(f"DROP POLICY {name} ON {table}".encode())
        connection.execute(
            f"CREATE POLICY {name} ON {table} FOR {'SELECT' if command == 'r' else 'ALL'} "
            f"TO {', '.join(map(quote_identifier, roles))} USING ({OWN_ROWS})"
            f"{f' WITH CHECK ({OWN_ROWS})' if checks else ''}".encode()
        )


def _install_functions(connection: Connection, path: str, given: Mapping[str, Any]) -> None:
    """Create the functions on every node in SQL that Citus accepts; functions of figures are called only here."""
    begin = [f"SET LOCAL search_path = {path}, pg_temp", "SET LOCAL check_function_bodies = off"]
    here, everywhere = list(begin), list(begin)
    for signature, text, owner, is_query, is_set, writes, is_of_figures, roles in connection.execute(
        _FUNCTIONS, given
    ).fetchall():
        commands = here if is_of_figures else everywhere
        commands += [
            for_cluster(text, is_query=is_query, is_set=is_set, is_of_figures=is_of_figures),
            *([f"ALTER FUNCTION {signature} SECURITY INVOKER"] if writes else []),
            f"ALTER FUNCTION {signature} OWNER TO {quote_identifier(owner)}",
            f"REVOKE ALL ON FUNCTION {signature} FROM PUBLIC",
            f"GRANT EXECUTE ON FUNCTION {signature} TO {', '.join(map(quote_identifier, roles or [owner]))}",
        ]
    _on_every_node(connection, everywhere)
    connection.execute(_here_alone([*here, *_figures_by_function(connection)]).encode())


def _figures_by_function(connection: Connection) -> list[str]:
    """The commands that have a view list the rows of a function, which goes from collection to collection."""
    commands: list[str] = []
    for view, query, typed, collated, roles in connection.execute(_VIEWS, {}).fetchall():
        # Its first column is named like the collection that is asked for, and NULL: all are.
        text = f"CREATE FUNCTION {view}_rows() RETURNS TABLE ({typed})\nLANGUAGE sql STABLE\nBEGIN ATOMIC {query} END"
        commands += [
            for_cluster(text, is_query=True, is_set=True, is_of_figures=True),
            f"REVOKE ALL ON FUNCTION {view}_rows() FROM PUBLIC",
            f"GRANT EXECUTE ON FUNCTION {view}_rows() TO {', '.join(map(quote_identifier, roles))}",
            f"CREATE OR REPLACE VIEW {view} WITH (security_invoker = true) AS SELECT {collated} FROM {view}_rows()",  # noqa: S608 - of the catalogue
        ]
    return commands


def for_cluster(text: str, *, is_query: bool, is_set: bool, is_of_figures: bool = False) -> str:
    """The definition of a function in the words that Citus understands.

    ``is_query``: its body is a query; ``is_set``: it gives rows; ``is_of_figures``: it gives those of a collection by
    itself, which its node can do whatever the query is, as it cannot of several.
    """
    for pattern, replacement in _WORDS:
        text = pattern.sub(replacement, text)
    found = _QUERY.fullmatch(text) if is_query else None
    if found is None:
        return text
    head, kind = found["head"].replace("LANGUAGE sql", "LANGUAGE plpgsql"), found["kind"]
    # Citus plans a query of a parallel worker with a setting changed, which PostgreSQL forbids there.
    head = head.replace("PARALLEL SAFE", "PARALLEL RESTRICTED")
    query = found["atomic"] or found["quoted"] or f"SELECT {found['expression']}"
    query = query.strip().removesuffix(";")
    declared, runs = "", f"RETURN QUERY {query};"
    if is_of_figures:
        query = _OF_COLLECTIONS.sub(r"(SELECT * FROM \1 WHERE collection_id = each_id) \2", query)
        query = query.replace("= c.collection_id", "= each_id")
        declared = "DECLARE each_id bigint;"
        runs = f"{_EACH} LOOP RETURN QUERY {query}; END LOOP;"
    elif not is_set:
        declared = f"DECLARE answer {kind};"
        runs = f"FOR answer IN {query} LOOP RETURN answer; END LOOP; RETURN NULL;"
    return f"{head}AS $cluster$\n#variable_conflict use_column\n{declared} BEGIN {runs} END $cluster$"


def _on_every_node(connection: Connection, commands: Sequence[str]) -> None:
    """Run the commands here and on every other node, with nothing that is said here repeated there."""
    block = _here_alone(commands)
    connection.execute(block.encode())
    for node, port, ran, said in connection.execute("SELECT * FROM run_command_on_workers(%s)", (block,)).fetchall():
        if not ran:
            raise DatabaseError(f"node {node}:{port} refused: {said}")


def _here_alone(commands: Sequence[str]) -> str:
    """The commands as one statement, because Citus reports only the first of several; it is not sent to other nodes."""
    said = quote_literal(";\n".join(["SET LOCAL citus.enable_ddl_propagation = off", *commands]))
    return f"DO {quote_literal(f'BEGIN EXECUTE {said}; END')}"
