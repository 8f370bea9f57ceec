"""Encode arrays for PostgreSQL's binary format, without an object of the driver for each element."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct, pack

from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format
from psycopg.types import TypeInfo

from retrieval.domain.items.embedding import Vector

_BYTEA, _TEXT, _JSONB, _OF_EXTENSION = 17, 25, 3802, 0
"""The OIDs of elements' types; that of an extension's type is not checked."""

_INT4 = Struct(">i")

_JSONB_VERSION = b"\x01"
"""The first byte of JSON in PostgreSQL's binary format."""

NULL = _INT4.pack(-1)
"""An element, or a field of a row, that is NULL: instead of its length."""


class _Lengths(dict[int, bytes]):
    def __missing__(self, length: int) -> bytes:
        return _INT4.pack(length)


LENGTHS = _Lengths({length: _INT4.pack(length) for length in range(256)})
"""The length before an element, or a field of a row, by the number of its bytes. Short ones are encoded in advance."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A value in PostgreSQL's binary format, complete, so that each statement of a batch sends the same bytes."""

    data: bytes


class Texts(Encoded):
    """A ``text[]``."""


class Blobs(Encoded):
    """A ``bytea[]``."""


class Jsonbs(Encoded):
    """A ``jsonb[]``."""


class HalfVector(Encoded):
    """A ``halfvec``."""


class HalfVectors(Encoded):
    """A ``halfvec[]``."""


def texts(values: Iterable[str | None]) -> Texts:
    """The texts; None is NULL."""
    return Texts(array_of(_TEXT, [None if value is None else value.encode() for value in values]))


def blobs(values: Iterable[bytes]) -> Blobs:
    """The bytes."""
    return Blobs(array_of(_BYTEA, list(values)))


def jsonbs(values: Iterable[object]) -> Jsonbs:
    """The values as JSON."""
    return Jsonbs(array_of(_JSONB, [_JSONB_VERSION + json.dumps(value).encode() for value in values]))


def half_vector(vector: Vector) -> HalfVector:
    """The vector, shape (dimensions,), rounded to half precision."""
    return HalfVector(pack(">HH", len(vector), 0) + vector.astype(">f2").tobytes())


def half_vectors(vectors: Iterable[Vector | None]) -> HalfVectors:
    """The vectors, each shape (dimensions,), rounded to half precision; None is NULL."""
    elements = [None if vector is None else half_vector(vector).data for vector in vectors]
    return HalfVectors(array_of(_OF_EXTENSION, elements))


def array_of(element: int, values: Sequence[bytes | None]) -> bytes:
    """An array with one dimension; None is NULL. ``element``: the OID of its elements' type."""
    elements = [NULL if value is None else LENGTHS[len(value)] + value for value in values]
    return array_head(element, (len(values),), has_null=None in values) + b"".join(elements)


@lru_cache(maxsize=256)
def array_head(element: int, shape: tuple[int, ...], *, has_null: bool = False) -> bytes:
    """The header of an array of that shape; ``element``: the OID of its elements' type."""
    dimensions = shape if 0 not in shape else ()
    bounds = [number for length in dimensions for number in (length, 1)]
    return pack(f">iiI{len(bounds)}i", len(dimensions), has_null, element, *bounds)


class _Dumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Encoded) -> Buffer:
        return obj.data


def register_arrays(adapters: AdaptersMap, halfvec: TypeInfo) -> None:
    """Let a connection send arrays; the OIDs of pgvector's types differ between databases."""
    oids = {Texts: 1009, Blobs: 1001, Jsonbs: 3807, HalfVector: halfvec.oid, HalfVectors: halfvec.array_oid}
    for kind, oid in oids.items():
        adapters.register_dumper(kind, type("_OwnDumper", (_Dumper,), {"oid": oid}))
