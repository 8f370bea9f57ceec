"""Records as they are sent, read back."""

from __future__ import annotations

from typing import Any

from psycopg import pq
from psycopg.adapt import Transformer

from retrieval.adapters.store.records.recording_statement import COLUMNS


def values_of(row: bytes) -> dict[str, Any]:
    """The values of an encoded record's columns, parsed like a server's answer."""
    reader, place = Transformer(), 4
    values: dict[str, Any] = {}
    assert int.from_bytes(row[:4]) == len(COLUMNS)
    for name in COLUMNS:
        kind = int.from_bytes(row[place : place + 4])
        size = int.from_bytes(row[place + 4 : place + 8], signed=True)
        place += 8
        values[name] = None
        if size >= 0:
            values[name] = reader.get_loader(kind, pq.Format.BINARY).load(row[place : place + size])
            place += size
    assert place == len(row)
    return values


def value_of(row: bytes, column: str) -> Any:
    """The value of one column."""
    return values_of(row)[column]
