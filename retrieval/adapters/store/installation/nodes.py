"""Calls of a Citus cluster, with settings for each node and with values in the statements' texts.

A session's settings do not reach the nodes, and Citus loses some of a statement's parameters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from struct import iter_unpack, unpack_from
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.types import TypeInfo

from retrieval.adapters.store import round_trip
from retrieval.adapters.store.arrays import Blobs, HalfVector, HalfVectors, Jsonbs, Texts
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.installed_sql import quote_literal

_BEGIN, _COMMIT = Compiled("BEGIN"), Compiled("COMMIT")
_LOCAL_ONLY = frozenset({"role"})
"""Settings that are not sent to the nodes: Citus logs in there as the acting role."""
_UNUSABLE = frozenset({"plan_cache_mode"})
"""Settings that do not work on a cluster: a generic plan does not tell Citus the node."""


def settings_of_nodes(settings: Mapping[str, str]) -> list[Compiled]:
    """The statements that set these values for a transaction, on every node that it uses.

    Citus sends the nodes only settings by ``SET LOCAL``.
    """
    statements = [Compiled("SET LOCAL citus.propagate_set_commands = 'local'")]
    if here := {name: value for name, value in settings.items() if name in _LOCAL_ONLY}:
        statements.append(round_trip.set_statement(here, is_local=True))
    for name, value in settings.items():
        if name not in _LOCAL_ONLY | _UNUSABLE:
            # A search path is a list of identifiers, which are quoted already.
            literal = value if name == "search_path" else quote_literal(value)
            statements.append(Compiled(f"SET LOCAL {name} = {literal}".replace("%", "%%")))
    return statements


_IS_ON_NODES = """
    EXISTS (
        SELECT FROM pg_dist_partition AS placed
        LEFT JOIN pg_index AS built ON built.indrelid = placed.logicalrelid AND built.indexrelid = {relation}
        WHERE placed.logicalrelid = {relation} OR built.indisvalid
    )
"""
"""Whether all nodes have the relation: some may lack their part of an index that is not valid."""


def stored_bytes(relation: str, *, is_distributed: bool) -> str:
    """The SQL expression for the bytes of a table or index, on all nodes of a cluster; 0: it was dropped meanwhile.

    ``relation``: the expression for its OID.
    """
    here = f"coalesce(pg_table_size({relation}), 0)"
    if not is_distributed:
        return here
    is_on_nodes = _IS_ON_NODES.format(relation=relation)
    return f"CASE WHEN {is_on_nodes} THEN citus_table_size({relation}) ELSE {here} END"


async def run_on_nodes(
    connection: round_trip.SessionConnection, settings: Mapping[str, str], statements: Sequence[Compiled]
) -> list[round_trip.Answer]:
    """Run the statements under the settings on a cluster, in one transaction and one round trip, without kept plans."""
    before = [_BEGIN, *settings_of_nodes(settings)]
    cursor = psycopg.AsyncClientCursor(connection)
    with_values = [_with_values(cursor, statement) for statement in statements]
    try:
        answers = await round_trip.run_together(connection, [*before, *with_values, _COMMIT])
    except (asyncio.CancelledError, psycopg.Error):
        await round_trip.undisturbed(_roll_back(connection))
        raise
    return answers[len(before) : -1]


async def _roll_back(connection: round_trip.SessionConnection) -> None:
    """End the transaction, or the pool would replace the connection."""
    with suppress(psycopg.Error):
        await connection.rollback()


def _with_values(cursor: psycopg.AsyncClientCursor[Any], statement: Compiled) -> Compiled:
    """The statement with its values in its text, unless they are there already."""
    if any(isinstance(value, round_trip.WrittenValue) for value in statement.parameters.values()):
        return statement
    return Compiled(cursor.mogrify(statement.text, statement.parameters).replace("%", "%%"))


_ARRAY_HEAD = 20
"""The bytes before the first element of an array."""


def _vector(data: bytes) -> str:
    return f"[{','.join(str(number) for (number,) in iter_unpack('>e', data[4:]))}]"


def _elements(packed: bytes) -> Iterator[bytes | None]:
    offset = 0
    while offset < len(packed):
        [size] = unpack_from(">i", packed, offset)
        offset += 4
        yield None if size < 0 else packed[offset : offset + size]
        offset += max(size, 0)


def _array(data: bytes, as_text: Callable[[bytes], str]) -> bytes:
    parts = [
        "NULL" if element is None else '"' + as_text(element).replace("\\", "\\\\").replace('"', '\\"') + '"'
        for element in _elements(data[_ARRAY_HEAD:])
    ]
    return f"{{{','.join(parts)}}}".encode()


class _Literal(Dumper):
    """Writes a value into the text of a statement."""

    write: Callable[[Any], bytes]

    def dump(self, obj: Any) -> Buffer:
        return self.write(obj)


def register_literals(adapters: AdaptersMap, halfvec: TypeInfo) -> None:
    """Let a connection write arrays and vectors into statements; the OIDs of pgvector's types differ by database."""
    kinds: list[tuple[type, int, Callable[[Any], bytes]]] = [
        (Texts, 1009, lambda texts: _array(texts.data, bytes.decode)),
        (Blobs, 1001, lambda blobs: _array(blobs.data, lambda element: f"\\x{element.hex()}")),
        (Jsonbs, 3807, lambda jsonbs: _array(jsonbs.data, lambda element: element[1:].decode())),
        (HalfVector, halfvec.oid, lambda vector: _vector(vector.data).encode()),
        (HalfVectors, halfvec.array_oid, lambda vectors: _array(vectors.data, _vector)),
    ]
    for kind, oid, write in kinds:
        adapters.register_dumper(kind, type("_OwnLiteral", (_Literal,), {"oid": oid, "write": staticmethod(write)}))
