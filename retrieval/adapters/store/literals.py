"""Arrays and vectors written into a statement's text, for servers that lose parameters on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import iter_unpack, unpack_from

from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.types import TypeInfo

from retrieval.adapters.store.arrays import Blobs, HalfVector, HalfVectors, Jsonbs, PackedArray, Texts

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
