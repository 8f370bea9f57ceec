"""Databases on a Citus cluster, for a run of the tests on one.

``RETRIEVAL_TEST_CITUS_URL`` is a superuser's URL of a database on the coordinator that knows the nodes; every node
takes the same login.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from retrieval.adapters.store.installation.cluster import distribute
from retrieval.adapters.store.installation.schema import upgrade

VARIABLE = "RETRIEVAL_TEST_CITUS_URL"
SHARDS = 4


def cluster_url() -> str | None:
    """The cluster's URL; None: the tests run on one server."""
    return os.environ.get(VARIABLE) or None


LOCK_WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
"""Counts what waits for a lock in the database, on whichever node."""
if cluster_url() is not None:
    LOCK_WAITS = LOCK_WAITS.replace("pg_stat_activity", "citus_stat_activity")


_END_SESSIONS = "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE datname = %s"


def not_on_a_cluster(why: str) -> pytest.MarkDecorator:
    """Marks tests of what a cluster cannot do, or does otherwise."""
    return pytest.mark.skipif(cluster_url() is not None, reason=f"NOT TESTED ON A CLUSTER: {why}")


@contextlib.contextmanager
def database_on_nodes(coordinator: str, name: str, schema: str) -> Iterator[str]:
    """The URL of a new database that every node has, with the ``schema``, distributed."""
    with psycopg.connect(coordinator, autocommit=True) as connection:
        nodes = connection.execute("SELECT nodename, nodeport FROM pg_dist_node ORDER BY groupid").fetchall()
    urls = [_at(coordinator, host, port, name) for host, port in nodes]
    host, port = nodes[0]
    try:
        for node_host, node_port in nodes:
            with psycopg.connect(_at(coordinator, node_host, node_port), autocommit=True) as connection:
                connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        for url in urls:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("CREATE EXTENSION citus")
                connection.execute("CREATE EXTENSION vector")
        with _alone(coordinator):
            with psycopg.connect(urls[0], autocommit=True) as connection:
                connection.execute("SELECT citus_set_coordinator_host(%s, %s)", (host, port))
                for other in nodes[1:]:
                    connection.execute("SELECT citus_add_node(%s, %s)", other)
            upgrade(urls[0], schema)
        distribute(urls[0], schema, shards=SHARDS)
        yield urls[0]
    finally:
        for node_host, node_port in nodes:
            with psycopg.connect(_at(coordinator, node_host, node_port), autocommit=True) as connection:
                # A daemon of Citus that has just started outlives the five seconds that DROP DATABASE waits.
                connection.execute(_END_SESSIONS, (name,))
                connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@contextlib.contextmanager
def _alone(coordinator: str) -> Iterator[None]:
    """Hold a lock of the processes: Citus copies the roles to each new node, and fails if two do that at once."""
    with psycopg.connect(coordinator, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(hashtextextended('nodes of the tests', 0))")
        yield


def _at(url: str, host: str, port: int, database: str | None = None) -> str:
    parts = urlsplit(url)
    login = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    path = parts.path if database is None else f"/{database}"
    return f"{parts.scheme}://{login}{host}:{port}{path}"
