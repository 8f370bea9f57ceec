"""Encode arrays for PostgreSQL's binary format, without an object of the driver for each element."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from struct import pack
from typing import Any, ClassVar

from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper, Loader
from psycopg.pq import Format
from psycopg.types import TypeInfo

from retrieval.domain.items.embedding import Vector

_JSONB = 3802
"""The type's OID."""

_JSONB_VERSION = b"\x01"
"""The first byte of JSON in PostgreSQL's binary format."""

_DECODE: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]

NULL = b"\xff\xff\xff\xff"
"""An element, or a field of a row, that is NULL: instead of its length, -1."""


@dataclass(frozen=True, slots=True)
class Jsonbs:
    """A ``jsonb[]``."""

    data: bytes
    """The complete array, so that each statement of a batch sends the same bytes."""


@dataclass(frozen=True, slots=True)
class PackedArray:
    """The elements of an array, each after its length, in PostgreSQL's binary format."""

    size: int
    elements: bytes
    has_null: bool = False


class Texts(PackedArray):
    """A ``text[]``."""

    __slots__ = ()


class Blobs(PackedArray):
    """A ``bytea[]``."""

    __slots__ = ()


class HalfVectors(PackedArray):
    """A ``halfvec[]``."""

    __slots__ = ()


def texts(values: Iterable[str | None]) -> Texts:
    """The texts; None is NULL."""
    return Texts(*_pack(None if value is None else value.encode() for value in values))


def blobs(values: Iterable[bytes]) -> Blobs:
    """The bytes."""
    return Blobs(*_pack(values))


def jsonbs(values: Iterable[object]) -> Jsonbs:
    """The values as JSON."""
    size, elements, _ = _pack(_JSONB_VERSION + json.dumps(value).encode() for value in values)
    return Jsonbs(array_head(_JSONB, (size,)) + elements)


def half_vectors(vectors: Iterable[Vector | None]) -> HalfVectors:
    """The vectors, each shape (dimensions,), rounded to half precision; None is NULL."""
    return HalfVectors(*_pack(None if vector is None else half_vector(vector).data for vector in vectors))


@dataclass(frozen=True, slots=True)
class HalfVector:
    """A ``halfvec``."""

    data: bytes


def half_vector(vector: Vector) -> HalfVector:
    """The vector, shape (dimensions,), rounded to half precision."""
    return HalfVector(pack(">HH", len(vector), 0) + vector.astype(">f2").tobytes())


def _pack(values: Iterable[bytes | None]) -> tuple[int, bytes, bool]:
    parts: list[bytes] = []
    has_null = False
    for value in values:
        if value is None:
            has_null = True
            parts += (NULL, b"")
        else:
            parts += (len(value).to_bytes(4, "big"), value)
    return len(parts) // 2, b"".join(parts), has_null


@lru_cache(maxsize=256)
def array_head(element: int, shape: tuple[int, ...], *, has_null: bool = False) -> bytes:
    """The header of an array of that shape; ``element``: the OID of its elements' type."""
    dimensions = shape if 0 not in shape else ()
    bounds = [number for length in dimensions for number in (length, 1)]
    return pack(f">iiI{len(bounds)}i", len(dimensions), has_null, element, *bounds)


class _ArrayDumper(Dumper):
    format = Format.BINARY
    element: ClassVar[int]

    def dump(self, obj: PackedArray) -> Buffer:
        return array_head(self.element, (obj.size,), has_null=obj.has_null) + obj.elements


class _TextsDumper(_ArrayDumper):
    oid, element = 1009, 25


class _BlobsDumper(_ArrayDumper):
    oid, element = 1001, 17


class _ReadyDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Jsonbs | HalfVector) -> Buffer:
        return obj.data


class _JsonbsDumper(_ReadyDumper):
    oid = 3807


class _JsonbLoader(Loader):
    """Decodes the server's JSON, which is UTF-8 without leading spaces: ``json.loads`` would check for both."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        return _DECODE(str(data, "utf-8"), len(_JSONB_VERSION))[0]


def register_arrays(adapters: AdaptersMap, halfvec: TypeInfo) -> None:
    """Let a connection send arrays and read JSON; the OIDs of pgvector's types differ between databases."""
    adapters.register_loader(_JSONB, _JsonbLoader)
    dumpers = {
        Texts: _TextsDumper,
        Blobs: _BlobsDumper,
        Jsonbs: _JsonbsDumper,
        HalfVector: type("_HalfVectorDumper", (_ReadyDumper,), {"oid": halfvec.oid}),
        HalfVectors: type("_HalfVectorsDumper", (_ArrayDumper,), {"oid": halfvec.array_oid, "element": halfvec.oid}),
    }
    for kind, dumper in dumpers.items():
        adapters.register_dumper(kind, dumper)
