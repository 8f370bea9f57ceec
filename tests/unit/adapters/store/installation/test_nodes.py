"""Calls of a cluster: the settings of its nodes, and values as texts."""

from __future__ import annotations

import numpy as np
import psycopg
import pytest
from psycopg.adapt import AdaptersMap, PyFormat
from psycopg.types import TypeInfo

from retrieval.adapters.store.arrays import blobs, half_vector, half_vectors, jsonbs, texts
from retrieval.adapters.store.installation.nodes import register_literals, settings_of_nodes, stored_bytes

VECTOR = np.array([1.0, -0.5], dtype=np.float32)


def test_each_value_is_set_by_a_command_that_citus_repeats_on_the_nodes() -> None:
    """The role alone is set here: a node is logged in at as that role."""
    settings = {
        "role": "retrieval_app",
        "search_path": '"retrieval", "public", pg_temp',
        "retrieval.tenant": "7",
        "hnsw.ef_search": "40",
    }
    statements = [(statement.text, statement.parameters) for statement in settings_of_nodes(settings)]
    assert statements == [
        ("SET LOCAL citus.propagate_set_commands = 'local'", {}),
        ("SELECT set_config('role', %(value_0)s, true)", {"value_0": "retrieval_app"}),
        ('SET LOCAL search_path = "retrieval", "public", pg_temp', {}),
        ("SET LOCAL retrieval.tenant = '7'", {}),
        ("SET LOCAL hnsw.ef_search = '40'", {}),
    ]


def test_no_plan_is_made_for_all_values() -> None:
    """It would lead to no node."""
    assert len(settings_of_nodes({"plan_cache_mode": "force_generic_plan"})) == 1


def test_a_value_stays_a_value() -> None:
    """Neither a quote nor a percent sign in a value has a special meaning."""
    [_, statement] = settings_of_nodes({"a.b": "it's 5 %"})
    assert statement.text == "SET LOCAL a.b = 'it''s 5 %%'"


def test_one_server_reports_a_size_without_citus() -> None:
    """Citus's functions and catalog exist only on a cluster, where a distributed table is empty on the coordinator."""
    assert stored_bytes("k.oid", is_distributed=False) == "coalesce(pg_table_size(k.oid), 0)"
    expression = stored_bytes("k.oid", is_distributed=True)
    assert "placed.logicalrelid = k.oid OR built.indisvalid" in expression
    assert "citus_table_size(k.oid) ELSE coalesce(pg_table_size(k.oid), 0)" in expression


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (texts(["a", None, "", 'b"c\\d']), r"""{"a",NULL,"","b\"c\\d"}"""),
        (texts([]), "{}"),
        (blobs([b"\x00\xff"]), r"""{"\\x00ff"}"""),
        (jsonbs([{"a": 1}]), r"""{"{\"a\": 1}"}"""),
        (half_vector(VECTOR), "[1.0,-0.5]"),
        (half_vectors([VECTOR, None]), '{"[1.0,-0.5]",NULL}'),
    ],
)
def test_a_composite_value_is_quoted_for_postgresql(value: object, literal: str) -> None:
    """Elements are in double quotes, in which quotes and backslashes are escaped by a backslash."""
    adapters = AdaptersMap(psycopg.adapters)
    register_literals(adapters, TypeInfo("halfvec", 90_001, 90_002))
    assert adapters.get_dumper(type(value), PyFormat.TEXT)(type(value)).dump(value) == literal.encode()
