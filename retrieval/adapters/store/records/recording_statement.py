"""The statement that stores recorded searches, and the encoding of its parameters. Light to import.

Each record is one parameter: a row of the type ``sent_retrieval`` in PostgreSQL's binary format, because JSON for all
columns would be slower.
"""

from __future__ import annotations

import json
import re
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import chain
from math import isfinite
from operator import attrgetter
from struct import Struct
from typing import Any
from uuid import UUID

from retrieval.adapters.store.arrays import LENGTHS, NULL, array_head, array_of
from retrieval.adapters.store.installed_sql import directory
from retrieval.domain.records.search_record import Matrix, SearchRecord

_INT4, _INT8, _DOUBLE = Struct(">i"), Struct(">q"), Struct(">d")
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TEXT, _UUID = 25, 2950


def encoded(record: SearchRecord) -> bytes:
    """The record as a parameter of a statement. Raises ``ValueError`` for NaN, infinity and text beyond UTF-8."""
    parts = [_COUNT]
    for head, encode, value in zip(_HEADS, _ENCODERS, _VALUES(record), strict=True):
        data = None if value is None else encode(value)
        parts += (head, NULL) if data is None else (head, LENGTHS[len(data)], data)
    return b"".join(parts)


def _double(value: float) -> bytes:
    if not isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    return _DOUBLE.pack(value)


def _microseconds(value: datetime) -> int:
    """A time as PostgreSQL's number of microseconds since the year 2000."""
    return (value - _EPOCH) // _MICROSECOND


def _json(value: Any) -> bytes:
    return b"\1" + _AS_JSON(value).encode()


def _plain(value: object) -> Any:
    """A value of another type as a JSON value."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    return str(value)  # identifiers and times


_AS_JSON = json.JSONEncoder(default=_plain, allow_nan=False).encode


def texts(values: Sequence[str]) -> bytes:
    """An array of texts."""
    return array_of(_TEXT, list(map(str.encode, values)))


def uuids(values: Sequence[UUID | None]) -> bytes:
    """An array of UUIDs."""
    return array_of(_UUID, [None if value is None else value.bytes for value in values])


def moments(values: Sequence[datetime | None]) -> bytes:
    """An array of times."""
    return numbers([None if value is None else _microseconds(value) for value in values], "q")


_NUMBERS = {"h": (2, 21), "i": (4, 23), "q": (8, 1184), "f": (4, 700), "d": (8, 701)}
"""By type code of Python's ``array``: the size in bytes and the OID of the PostgreSQL type; ``q`` is for times."""


def numbers(values: Sequence[Any], code: str, shape: tuple[int, ...] = ()) -> bytes:
    """An array of numbers with that shape, by default one-dimensional.

    Raises ``ValueError`` for NaN and infinity.
    """
    shape = shape or (len(values),)
    size, kind = _NUMBERS[code]
    present = [value for value in values if value is not None] if None in values else values
    if not isfinite(sum(present)) and not all(map(isfinite, present)):
        raise ValueError(f"{next(number for number in present if not isfinite(number))} is not a finite number")
    if present is not values:
        head, pack = LENGTHS[size], Struct(f">{code}").pack
        elements = [NULL if value is None else head + pack(value) for value in values]
        return array_head(kind, shape, has_null=True) + b"".join(elements)
    sized = [size] * (2 * len(values))
    sized[1::2] = values
    return array_head(kind, shape) + _sized(code, len(values)).pack(*sized)


@lru_cache(maxsize=256)
def _sized(code: str, number: int) -> Struct:
    """The layout of that number of values, each after its size."""
    return Struct(">" + f"i{code}" * number)


def _vector(values: Sequence[float]) -> bytes:
    """As ``numbers`` in single precision, several times as fast for the hundreds of numbers of a vector."""
    if not isfinite(sum(values)):
        raise ValueError("a vector has a number that is not finite")
    swapped = array("f", values)
    if sys.byteorder == "little":
        swapped.byteswap()
    size, kind = _NUMBERS["f"]
    words = array("I", _INT4.pack(size) + bytes(size)) * len(values)
    words[1::2] = array("I", swapped.tobytes())
    return array_head(kind, (len(values),)) + words.tobytes()


def _matrix(rows: Sequence[Sequence[Any]], code: str) -> bytes:
    return numbers(list(chain.from_iterable(rows)), code, (len(rows), len(rows[0]) if rows else 0))


def _score_matrix(rows: Matrix) -> bytes | None:
    """The scores in single precision, which the legs compute most of them in; None if that loses digits."""
    return _matrix(rows, "f") if _are_real(rows) else None


def _exact_score_matrix(rows: Matrix) -> bytes | None:
    return None if _are_real(rows) else _matrix(rows, "d")


def _are_real(rows: Matrix) -> bool:
    present = [value for value in chain.from_iterable(rows) if value is not None]
    return array("f", present).tolist() == present


_Encoder = Callable[[Any], bytes | None]
_KINDS: Mapping[str, tuple[int, _Encoder]] = {
    "bigint": (20, _INT8.pack),
    "integer": (23, _INT4.pack),
    "double precision": (701, _double),
    "boolean": (16, lambda value: b"\1" if value else b"\0"),
    "text": (25, str.encode),
    "uuid": (2950, attrgetter("bytes")),
    "timestamptz": (1184, lambda value: _INT8.pack(_microseconds(value))),
    "jsonb": (3802, _json),
    "text[]": (1009, texts),
    "smallint[]": (1005, partial(numbers, code="h")),
    "integer[]": (1007, partial(numbers, code="i")),
    "real[]": (1021, partial(numbers, code="f")),
    "double precision[]": (1022, partial(numbers, code="d")),
}
"""The OID of each type, the same on every server, and its encoder."""

_OWN_ENCODERS: Mapping[str, _Encoder] = {
    "vector": _vector,
    "pool_scores": _score_matrix,
    "pool_scores_exact": _exact_score_matrix,
    "pool_ranks": partial(_matrix, code="i"),
    "pool_values": partial(_matrix, code="d"),
}


def _columns() -> dict[str, str]:
    text = (directory("sql") / "records" / "tables.sql").read_text(encoding="utf-8")
    body = text.partition("CREATE TYPE sent_retrieval AS (")[2].partition("\n);")[0]
    return dict(re.findall(r"(\w+) ([a-z][a-z ]*(?:\[\])?)", body))


COLUMNS: Mapping[str, str] = _columns()
"""The columns of a recorded search in order, with the types in which they are sent."""

_COUNT = _INT4.pack(len(COLUMNS))
_HEADS = [_INT4.pack(_KINDS[kind][0]) for kind in COLUMNS.values()]
_ENCODERS = [_OWN_ENCODERS.get(name) or _KINDS[kind][1] for name, kind in COLUMNS.items()]
_VALUES = attrgetter(*("pool_scores" if name == "pool_scores_exact" else name for name in COLUMNS))

# An item that was forgotten after the search is recorded by a pseudonym, wherever the record names it.
_EXPRESSIONS = {
    "vector": "g.vector::halfvec",
    **{
        name: f"CASE WHEN names.old IS NULL THEN g.{name} ELSE {function}(g.{name}, names.old, names.new) END"
        for name, function in {
            "pool_items": "renamed_items",
            "shown_items": "renamed_items",
            "condition": "renamed_texts",
            "request": "renamed_request",
        }.items()
    },
}
_NAMES = ", ".join(COLUMNS)

TOGETHER = 64
"""The most records that one statement stores."""


def _store(most: int) -> str:
    """The statement for at most that number of records. Repeating it changes nothing, because its answer can get lost.

    For the same reason, the losses count only if the first search is new: a repetition begins with the same search.
    """
    return f"""
        WITH given AS MATERIALIZED (
            SELECT r.* FROM unnest(ARRAY[{", ".join(f"%({name})s::sent_retrieval" for name in row_names(most))}])
                WITH ORDINALITY AS r ({_NAMES}, place)
            WHERE r.collection_id IN (SELECT c.collection_id FROM collections c WHERE c.tenant_id = %(tenant_id)s)
        ), named AS MATERIALIZED (
            SELECT g.collection_id, place.item_id
            FROM given g CROSS JOIN unnest(g.pool_items || g.shown_items) AS place (item_id)
            GROUP BY g.collection_id, place.item_id
        ), gone AS MATERIALIZED (
            SELECT missing.* FROM (
                SELECT array_agg(named.collection_id) AS collections, array_agg(named.item_id) AS ids FROM named
            ) AS every CROSS JOIN missing_items(every.collections, every.ids) AS missing
        ), names AS MATERIALIZED (
            SELECT array_agg(gone.item) AS old, array_agg(gone.pseudonym) AS new FROM gone
        ), kept AS (
            INSERT INTO retrievals ({_NAMES})
            SELECT {", ".join(_EXPRESSIONS.get(name, f"g.{name}") for name in COLUMNS)}
            FROM given g CROSS JOIN names ON CONFLICT DO NOTHING RETURNING retrieval_id
        ), lost AS (
            INSERT INTO recording_losses (collection_id, day, reason, retrievals)
            SELECT l.collection_id, l.day, l.reason, l.retrievals
            FROM json_to_recordset(%(losses)s::json)
                AS l (collection_id bigint, day date, reason text, retrievals bigint)
            WHERE l.collection_id IN (SELECT c.collection_id FROM collections c WHERE c.tenant_id = %(tenant_id)s)
                AND (%(are_alone)s OR EXISTS (SELECT FROM kept JOIN given g USING (retrieval_id) WHERE g.place = 1))
            ON CONFLICT (collection_id, day, reason)
                DO UPDATE SET retrievals = recording_losses.retrievals + excluded.retrievals
        )
        SELECT g.retrieval_id FROM given g
    """  # noqa: S608 - of the names above


def row_names(most: int) -> list[str]:
    """The names of the parameters for that number of rows; the value of a missing row is None."""
    return [f"row_{number}" for number in range(most)]


STORE_ONE, STORE_MANY = _store(1), _store(TOGETHER)
"""The statement for one record, and for many."""
