"""Calls of a Citus cluster: their settings are sent to each node, and their values are in the statements' texts.

A session's settings do not reach the nodes, and some of a statement's parameters are lost on the way there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import iter_unpack, unpack_from
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.types import TypeInfo

from retrieval.adapters.store.arrays import Blobs, HalfVector, HalfVectors, Jsonbs, PackedArray, Texts
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.installed_sql import quote_literal
from retrieval.adapters.store.round_trip import (
    Answer,
    SessionConnection,
    WrittenValue,
    run_together,
    set_statement,
)

_BEGIN, _COMMIT = Compiled("BEGIN"), Compiled("COMMIT")
_HERE_ALONE = frozenset({"role"})
"""Settings that the nodes of a cluster need not be told: they are logged in at as the role that acts."""
_OF_NO_USE = frozenset({"plan_cache_mode"})
"""Settings that a cluster cannot have: a plan for all values leads to no node."""


def settings_of_nodes(settings: Mapping[str, str]) -> list[Compiled]:
    """The statements that set these values for a transaction, on every node of a cluster that it comes to.

    The nodes know what a transaction sets for itself by ``SET LOCAL``, and nothing that a session does.
    """
    statements = [Compiled("SET LOCAL citus.propagate_set_commands = 'local'")]
    if here := {name: value for name, value in settings.items() if name in _HERE_ALONE}:
        statements.append(set_statement(here, is_local=True))
    for name, value in settings.items():
        if name not in _HERE_ALONE | _OF_NO_USE:
            # A search path is a list of identifiers, which its maker has quoted.
            said = value if name == "search_path" else quote_literal(value)
            statements.append(Compiled(f"SET LOCAL {name} = {said}".replace("%", "%%")))
    return statements


_IS_ON_NODES = """
    EXISTS (
        SELECT FROM pg_dist_partition AS placed
        LEFT JOIN pg_index AS built ON built.indrelid = placed.logicalrelid AND built.indexrelid = {relation}
        WHERE placed.logicalrelid = {relation} OR built.indisvalid
    )
"""
"""Of an index that is not valid, some nodes may have no part."""


def stored_bytes(relation: str, *, is_distributed: bool) -> str:
    """The SQL expression of the bytes that a table or index takes, on all nodes of a cluster.

    ``relation``: the expression of its number (``oid``).
    """
    here = f"pg_table_size({relation})"
    if not is_distributed:
        return here
    is_on_nodes = _IS_ON_NODES.format(relation=relation)
    return f"CASE WHEN {is_on_nodes} THEN citus_table_size({relation}) ELSE {here} END"


def counted_rows(entry: str, *, is_distributed: bool) -> str:
    """The SQL expression of the rows of an index as PostgreSQL has counted them; -1: it has not.

    ``entry``: the index's row of ``pg_class``. A cluster's coordinator counts only its own empty index.
    """
    return "-1::bigint" if is_distributed else f"{entry}.reltuples::bigint"


async def run_on_nodes(
    connection: SessionConnection, settings: Mapping[str, str], statements: Sequence[Compiled]
) -> list[Answer]:
    """Run the statements under the settings on a cluster, in one transaction and one round trip. No plan is kept.

    Their values are written into them, as those of the connection's own cursors are.
    """
    before = [_BEGIN, *settings_of_nodes(settings)]
    cursor = psycopg.AsyncClientCursor(connection)
    said = [_with_values(cursor, statement) for statement in statements]
    answers = await run_together(connection, [*before, *said, _COMMIT])
    return answers[len(before) : -1]


def _with_values(cursor: psycopg.AsyncClientCursor[Any], statement: Compiled) -> Compiled:
    """The statement with the remaining values in its text."""
    if any(isinstance(value, WrittenValue) for value in statement.parameters.values()):
        return statement
    return Compiled(cursor.mogrify(statement.text, statement.parameters).replace("%", "%%"))


_ARRAY_HEAD = 20
"""The bytes before the first element of an array."""


def _vector(data: bytes) -> str:
    return f"[{','.join(str(number) for (number,) in iter_unpack('>e', data[4:]))}]"


def _elements(packed: bytes) -> Iterator[bytes | None]:
    place = 0
    while place < len(packed):
        [size] = unpack_from(">i", packed, place)
        place += 4
        yield None if size < 0 else packed[place : place + size]
        place += max(size, 0)


def _array(packed: bytes, said: Callable[[bytes], str]) -> bytes:
    parts = [
        "NULL" if element is None else '"' + said(element).replace("\\", "\\\\").replace('"', '\\"') + '"'
        for element in _elements(packed)
    ]
    return f"{{{','.join(parts)}}}".encode()


class _TextsText(Dumper):
    oid = 1009

    def dump(self, obj: PackedArray) -> Buffer:
        return _array(obj.elements, self.said)

    def said(self, element: bytes) -> str:
        return element.decode()


class _BlobsText(_TextsText):
    oid = 1001

    def said(self, element: bytes) -> str:
        return f"\\x{element.hex()}"


class _HalfVectorsText(_TextsText):
    def said(self, element: bytes) -> str:
        return _vector(element)


class _JsonbsText(Dumper):
    oid = 3807

    def dump(self, obj: Jsonbs) -> Buffer:
        return _array(obj.data[_ARRAY_HEAD:], lambda element: element[1:].decode())


class _HalfVectorText(Dumper):
    def dump(self, obj: HalfVector) -> Buffer:
        return _vector(obj.data).encode()


def register_literals(adapters: AdaptersMap, halfvec: TypeInfo) -> None:
    """Let a connection write them into statements; the number of pgvector's type is the database's own."""
    dumpers = {
        Texts: _TextsText,
        Blobs: _BlobsText,
        Jsonbs: _JsonbsText,
        HalfVector: type("_OwnHalfVectorText", (_HalfVectorText,), {"oid": halfvec.oid}),
        HalfVectors: type("_OwnHalfVectorsText", (_HalfVectorsText,), {"oid": halfvec.array_oid}),
    }
    for kind, how in dumpers.items():
        adapters.register_dumper(kind, how)
