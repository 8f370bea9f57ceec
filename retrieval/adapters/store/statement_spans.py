"""What traces show of the database: a span a round trip and one a transaction, by OpenTelemetry's names for databases.

They tell where the server is, when a connection was to be had, how many statements went there, and how many rows came
back; no value and no statement's text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import psycopg
from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.round_trip import Row
from retrieval.adapters.store.translate import is_readable

Server = Mapping[str, AttributeValue]
"""Which database it is."""

ROUND_TRIP, TRANSACTION = "postgresql statements", "postgresql transaction"
"""The spans' names."""

_CHANGE = re.compile(r"\b(?:INSERT|UPDATE|DELETE)\b", re.IGNORECASE)


def server_of(url: str) -> Server:
    """Which database a URL names, without user and password; of one that cannot be read, that it is PostgreSQL."""
    told: dict[str, AttributeValue] = {"db.system.name": "postgresql"}
    if not is_readable(url):
        return told
    parts = psycopg.conninfo.conninfo_to_dict(url)
    named = {"server.address": "host", "server.port": "port", "db.namespace": "dbname"}
    return told | {name: str(parts[key]) for name, key in named.items() if parts.get(key)}


def tell_connected(traced: Span | None, server: Server, statements: Sequence[Compiled] = ()) -> None:
    """A connection was to be had at this moment, for those statements."""
    if traced is not None:
        traced.add_event("connected")
        traced.set_attributes(server)
        if statements:
            names = {_operation(statement.text) for statement in statements}
            traced.set_attribute("db.operation.name", names.pop() if len(names) == 1 else "BATCH")
        if len(statements) > 1:
            traced.set_attribute("db.operation.batch.size", len(statements))


@lru_cache(maxsize=1024)
def _operation(text: str) -> str:
    """What the statement does; one that changes something may read on its way."""
    found = _CHANGE.search(text)
    return found[0].upper() if found else "SELECT"


def tell_rows(traced: Span | None, answers: Sequence[Sequence[Row]]) -> None:
    """So many rows came back."""
    if traced is not None:
        traced.set_attribute("db.response.returned_rows", sum(map(len, answers)))
