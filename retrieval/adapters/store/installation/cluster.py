"""Distribute the schema over a Citus cluster, with all rows of a collection on one node.

``distribute`` runs on the coordinator after ``upgrade``. See docs/decisions/0042-citus.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

from retrieval.adapters.store.installed_sql import Names, installed_sql, quote_identifier, quote_literal
from retrieval.adapters.store.round_trip import CONNECTION
from retrieval.adapters.store.translate import translated
from retrieval.domain.errors import DatabaseError, MissingPrivilegeError, UnsupportedDatabaseError

Connection = psycopg.Connection[Any]

OWN_ROWS = "collection_id = ANY (own_collections())"
"""The condition of a policy on a cluster; own_collections is in sql/cluster/tables.sql."""

EVERYWHERE = ("tenants", "embedding_spaces", "collections", "analyst_logins", "api_keys", "quarantines")
"""The small tables that every node has in full: policies and functions read them with the rows of a collection."""

FIRST = "learning_states"
"""The table that is distributed first; all other tables are colocated with it."""

_TABLES_OF_COLLECTIONS = """
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
    SELECT p.polname, p.polrelid::regclass::text, p.polcmd::text,
        ARRAY(SELECT r.rolname::text FROM pg_roles AS r WHERE r.oid = ANY (p.polroles))
    FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid
    WHERE c.relnamespace = %(schema)s::regnamespace
        AND pg_get_expr(p.polqual, p.polrelid) LIKE '%%SELECT c.collection_id%%FROM%%collections c%%'
"""
_FUNCTIONS = """
    SELECT
        p.oid::regprocedure::text, pg_get_functiondef(p.oid), pg_get_userbyid(p.proowner),
        l.lanname = 'sql' AND p.provolatile <> 'i', p.proretset,
        -- Functions that write rows of a collection, and those that they call, run with the caller's rights: a
        -- transaction has a connection to a node for each role, and two of them would wait for each other.
        p.provolatile = 'v' AND p.proargnames[1] = 'collection'
            OR p.proname IN ('record_feedback', 'window_parts', 'reached_from'),
        p.proname ~ '^analytics_',
        ARRAY(SELECT r.rolname::text FROM aclexplode(p.proacl) AS g JOIN pg_roles AS r ON r.oid = g.grantee)
    FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
    WHERE p.pronamespace = %(schema)s::regnamespace AND p.prokind = 'f'
        -- Functions that take or return a type of the schema are called only here, like those of figures.
        AND (p.proname ~ '^analytics_' OR NOT EXISTS (
            SELECT FROM unnest(p.proargtypes || p.prorettype) AS given (type)
            JOIN pg_type AS t ON given.type IN (t.oid, t.typarray)
            JOIN pg_class AS c ON c.oid = t.typrelid
            WHERE c.relkind = 'c' AND c.relnamespace = p.pronamespace
        ))
    ORDER BY p.oid
"""
_REPLACEMENTS = (
    # Citus chooses the node by the value of a parameter, which a generic plan does not have.
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
    """The tables whose rows are on the node of their collection."""
    everywhere: tuple[str, ...]
    """The tables that every node has in full."""


def distribute(url: str, schema: str, *, shards: int = 32) -> Distribution:
    """Distribute the schema's tables and their rows by collection, and create the functions on every node.

    A second run continues an interrupted one, and updates nodes that were added since.

    Raises ``UnsupportedDatabaseError`` if the database is not the coordinator of a cluster.
    """
    names = Names(schema)
    parameters = {"schema": schema, "everywhere": list(EVERYWHERE), "first": FIRST}
    with translated(url), psycopg.connect(url, autocommit=True, **CONNECTION) as connection:
        nodes = _nodes_of(connection)
        vectors = _value(
            connection, "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'"
        )
        path = ", ".join(map(quote_identifier, dict.fromkeys([schema, vectors or "public"])))
        for setting in (f"search_path = {path}, pg_temp", "client_min_messages = warning"):
            connection.execute(f"SET {setting}".encode())
        _on_every_node(connection, [installed_sql("cluster/roles", names)])
        tables = tuple(str(name) for (name,) in connection.execute(_TABLES_OF_COLLECTIONS, parameters))
        with connection.transaction():
            # In a second run too: an upgrade of the schema may have replaced them by functions for a single server.
            connection.execute(installed_sql("cluster/tables", names).encode())
            is_distributed = "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass(%(first)s))"
            if not _value(connection, is_distributed, parameters):
                _distribute_tables(connection, parameters, tables, shards)
        _install_functions(connection, path, parameters)
        return Distribution(nodes, tables, EVERYWHERE)


def rebalance(url: str) -> int:
    """Move collections until the nodes hold about equally much, while writes wait; returns the number of moves.

    Raises ``UnsupportedDatabaseError`` if the database is not the coordinator of a cluster.
    """
    with translated(url), psycopg.connect(url, autocommit=True, **CONNECTION) as connection:
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
        raise UnsupportedDatabaseError("this is not a coordinator with nodes; see docs/how-to/cluster.md")
    return int(nodes)


def _value(connection: Connection, query: LiteralString, parameters: Mapping[str, Any] | None = None) -> Any:
    row = connection.execute(query, parameters).fetchone()
    return row[0] if row else None


def _distribute_tables(
    connection: Connection, parameters: Mapping[str, Any], tables: Sequence[str], shards: int
) -> None:
    # Once a transaction has followed a foreign key, Citus needs one connection to each node.
    connection.execute("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
    with _without_foreign_keys(connection, parameters):
        _replace_policies(connection, parameters)
        for name in tables:
            beside = "shard_count => %s" if name == FIRST else "colocate_with => %s"
            connection.execute(
                f"SELECT create_distributed_table(%s, 'collection_id', {beside})".encode(),
                (name, shards if name == FIRST else FIRST),
            )
        for name in EVERYWHERE:
            connection.execute("SELECT create_reference_table(%s)", (name,))


@contextmanager
def _without_foreign_keys(connection: Connection, parameters: Mapping[str, Any]) -> Iterator[None]:
    """Drop the foreign keys during the block, because tables can only be distributed one by one.

    The keys of tables that are not distributed are not restored: each write would lock the referenced row on every
    node, and need the right to change it.
    """
    keys = connection.execute(_KEYS, parameters).fetchall()
    for table, key, _, _ in keys:
        connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {quote_identifier(key)}".encode())
    yield
    for table, key, definition, is_owned in keys:
        if is_owned:
            connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT {quote_identifier(key)} {definition}".encode())


def _replace_policies(connection: Connection, parameters: Mapping[str, Any]) -> None:
    """Replace policies with a subquery, which distributed tables cannot have."""
    for policy, table, command, roles in connection.execute(_POLICIES, parameters).fetchall():
        name = quote_identifier(policy)
        connection.execute(f"DROP POLICY {name} ON {table}".encode())
        connection.execute(
            f"CREATE POLICY {name} ON {table} FOR {'SELECT' if command == 'r' else 'ALL'} "
            f"TO {', '.join(map(quote_identifier, roles))} USING ({OWN_ROWS})".encode()
        )


def _install_functions(connection: Connection, path: str, parameters: Mapping[str, Any]) -> None:
    """Create the functions on every node in SQL that Citus accepts; functions of figures are called only here."""
    begin = [f"SET LOCAL search_path = {path}, pg_temp", "SET LOCAL check_function_bodies = off"]
    here, everywhere = list(begin), list(begin)
    for signature, text, owner, is_query, is_set, writes, is_of_figures, roles in connection.execute(
        _FUNCTIONS, parameters
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
    connection.execute(_local_block(here).encode())


def for_cluster(text: str, *, is_query: bool, is_set: bool, is_of_figures: bool = False) -> str:
    """The definition of a function in SQL that Citus accepts.

    ``is_query``: its body is a query; ``is_set``: it returns rows; ``is_of_figures``: it computes figures, which a node
    can do for a single collection only.
    """
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    match = _QUERY.fullmatch(text) if is_query else None
    if match is None:
        return text
    head, kind = match["head"].replace("LANGUAGE sql", "LANGUAGE plpgsql"), match["kind"]
    # Citus plans a query of a parallel worker with a setting changed, which PostgreSQL forbids there.
    head = head.replace("PARALLEL SAFE", "PARALLEL RESTRICTED")
    query = match["atomic"] or match["quoted"] or f"SELECT {match['expression']}"
    query = query.strip().removesuffix(";")
    declaration, statements = "", f"RETURN QUERY {query};"
    if is_of_figures:
        query = _OF_COLLECTIONS.sub(r"(SELECT * FROM \1 WHERE collection_id = each_id) \2", query)
        query = query.replace("= c.collection_id", "= each_id")
        declaration = "DECLARE each_id bigint;"
        statements = f"{_EACH} LOOP RETURN QUERY {query}; END LOOP;"
    elif not is_set:
        declaration = f"DECLARE answer {kind};"
        statements = f"FOR answer IN {query} LOOP RETURN answer; END LOOP; RETURN NULL;"
    return f"{head}AS $cluster$\n#variable_conflict use_column\n{declaration} BEGIN {statements} END $cluster$"


def _on_every_node(connection: Connection, commands: Sequence[str]) -> None:
    """Run the commands here and on every other node, without Citus repeating them there."""
    block = _local_block(commands)
    connection.execute(block.encode())
    for node, port, succeeded, answer in connection.execute(
        "SELECT * FROM run_command_on_workers(%s)", (block,)
    ).fetchall():
        if not succeeded:
            raise DatabaseError(f"node {node}:{port} refused: {answer}")


def _local_block(commands: Sequence[str]) -> str:
    """The commands as one statement, because Citus reports only the first of several; not repeated on other nodes."""
    block = quote_literal(";\n".join(["SET LOCAL citus.enable_ddl_propagation = off", *commands]))
    return f"DO {quote_literal(f'BEGIN EXECUTE {block}; END')}"
