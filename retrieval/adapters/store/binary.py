"""Arrays in PostgreSQL's binary form, for what is sent by the hundred. Light to import.

The driver's own ways run several lines of Python for each value.
https://www.postgresql.org/docs/current/protocol-overview.html
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from math import isfinite
from struct import Struct
from typing import Any
from uuid import UUID

INT4 = Struct(">i")
NULL = INT4.pack(-1)
"""The size of a value that is none."""

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TEXT, _UUID = 25, 2950
_UUID_SIZE = INT4.pack(16)


def microseconds(value: datetime) -> int:
    """A time as PostgreSQL counts it, from the year 2000."""
    return (value - _EPOCH) // _MICROSECOND


def texts(values: Sequence[str]) -> bytes:
    """An array of texts."""
    # There are a hundred: no line of Python is run for each.
    each = list(map(str.encode, values))
    sized = chain.from_iterable(zip(map(INT4.pack, map(len, each)), each, strict=True))
    return _array_head(_TEXT, (len(each),)) + b"".join(sized)


def uuids(values: Sequence[UUID | None]) -> bytes:
    """An array of UUIDs."""
    each = [NULL if value is None else _UUID_SIZE + value.bytes for value in values]
    return _array_head(_UUID, (len(each),), has_nulls=NULL in each) + b"".join(each)


def moments(values: Sequence[datetime | None]) -> bytes:
    """An array of times."""
    return numbers([None if value is None else microseconds(value) for value in values], "q")


_NUMBERS = {"h": (2, 21), "i": (4, 23), "q": (8, 1184), "f": (4, 700), "d": (8, 701)}
"""The size in bytes and the OID of a PostgreSQL type, by its type code in Python's ``array``; ``q`` is a time's."""


def numbers(values: Sequence[Any], code: str, shape: tuple[int, ...] = ()) -> bytes:
    """An array of numbers of a kind, of that shape; by default all in one row.

    Raises ``ValueError`` for a number that is none.
    """
    shape = shape or (len(values),)
    size, kind = _NUMBERS[code]
    known = [value for value in values if value is not None] if None in values else values
    if not isfinite(sum(known)) and not all(map(isfinite, known)):
        raise ValueError(f"{next(one for one in known if not isfinite(one))} is no finite number")
    if known is not values:
        head, pack = INT4.pack(size), Struct(f">{code}").pack
        data = [NULL if value is None else head + pack(value) for value in values]
        return _array_head(kind, shape, has_nulls=True) + b"".join(data)
    made = array(code, values)
    if sys.byteorder == "little":
        made.byteswap()
    return _array_head(kind, shape) + _sized(memoryview(made), size)


def _sized(numbers: memoryview, size: int) -> bytes:
    """The numbers, each after its size: there are hundreds, so that no line of Python is run for each."""
    made = bytearray(_sizes(size, len(numbers)))
    if size == 2:
        words, given = memoryview(made).cast("H"), numbers.cast("B").cast("H")
    else:
        words, given = memoryview(made).cast("I"), numbers.cast("B").cast("I")
    head, body = 4 // words.itemsize, size // words.itemsize
    for place in range(body):
        words[head + place :: head + body] = given[place::body]
    return bytes(made)


@lru_cache(maxsize=256)
def _sizes(size: int, number: int) -> bytes:
    return (INT4.pack(size) + bytes(size)) * number


@lru_cache(maxsize=256)
def _array_head(kind: int, shape: tuple[int, ...], *, has_nulls: bool = False) -> bytes:
    dimensions = shape if 0 not in shape else ()
    bounds = chain.from_iterable((length, 1) for length in dimensions)
    return Struct(f">{3 + 2 * len(dimensions)}i").pack(len(dimensions), has_nulls, kind, *bounds)
