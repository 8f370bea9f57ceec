"""Recorded searches with their impressions: many of them stored by one statement, each read by its identifier."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any
from uuid import UUID

from pydantic_core import to_json

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.records.recording_statement import (
    COLUMNS,
    SHOWN_COLUMNS,
    SHOWN_TYPES,
    STORE,
    TYPES,
    encoded,
    names_of,
    plain,
    values_of,
)
from retrieval.domain.recorded import Impression, RecordedSearch
from retrieval.domain.retrieval_id import time_of
from retrieval.domain.slate import Slot

Losses = Mapping[tuple[int, date, str], int]
"""How many searches were not recorded, by collection, day and reason."""

_STORE = Compiled(STORE)
_FIND = Compiled(f"""
    SELECT {COLUMNS} FROM retrievals r
    WHERE r.collection_id IN (SELECT c.collection_id FROM collections c WHERE c.tenant_id = %(tenant_id)s)
        AND r.retrieval_id = %(retrieval_id)s AND r.retrieved_at = %(retrieved_at)s
""")  # noqa: S608 - of the names above
_FIND_SHOWN = Compiled(f"""
    SELECT {SHOWN_COLUMNS} FROM impressions i
    WHERE i.collection_id IN (SELECT c.collection_id FROM collections c WHERE c.tenant_id = %(tenant_id)s)
        AND i.retrieval_id = %(retrieval_id)s AND i.retrieved_at = %(retrieved_at)s
    ORDER BY i.rank
""")  # noqa: S608 - of the names above
_LOST = Compiled("""
    SELECT l.reason, sum(l.retrievals)::bigint FROM recording_losses l
    WHERE l.collection_id = %(collection_id)s GROUP BY l.reason ORDER BY l.reason
""")


async def store_recordings(
    database: Database, tenant_id: int, searches: Sequence[str], losses: Losses
) -> frozenset[UUID]:
    """Store encoded searches and what was lost, in one round trip and one transaction; gives those that are stored.

    Those of a collection that was removed are not. Items that are gone by now bear a random pseudonym in them, which is
    one for a batch; the statement waits for who forgets items or changes what feedback weighs. The losses are stored
    where the first search is, or none is given, and once: sent again with it they must be the same.
    """
    lost = [
        {"collection_id": collection_id, "day": str(day), "reason": reason, "retrievals": number}
        for (collection_id, day, reason), number in sorted(losses.items())
    ]
    statement = _STORE.bind(
        tenant_id=tenant_id,
        searches=f"[{','.join(searches)}]",
        losses=json.dumps(lost),
        are_alone=not searches,
    )
    return frozenset(row[0] for row in await database.write(tenant_id, statement))


async def find_recorded(database: Database, tenant_id: int, retrieval_id: UUID) -> RecordedSearch | None:
    """The tenant's recorded search of that identifier, or None."""
    key = {"tenant_id": tenant_id, "retrieval_id": retrieval_id, "retrieved_at": time_of(retrieval_id)}
    found, shown = await database.read_each(tenant_id, [_FIND.bind(**key), _FIND_SHOWN.bind(**key)])
    if not found:
        return None
    values = dict(zip(names_of(TYPES), found[0], strict=True))
    vector = None if values["vector"] is None else values["vector"].to_list()
    impressions = [_impression(dict(zip(names_of(SHOWN_TYPES), row, strict=True))) for row in shown]
    return RecordedSearch(**{**values, "vector": vector}, impressions=impressions)


async def recording_losses(database: Database, tenant_id: int, collection_id: int) -> dict[str, int]:
    """How many of a collection's searches were not recorded, by reason."""
    rows = await database.read(tenant_id, _LOST.bind(collection_id=collection_id))
    return dict(rows)


def _impression(values: dict[str, Any]) -> Impression:
    return Impression(**{**values, "slot": Slot(values["slot"])})


_NO_NUMBERS = (b"NaN", b"Infinity")


def written(search: RecordedSearch) -> str:
    """The search as ``store_recordings`` takes it, written down as ``encoded`` does, ten times as fast.

    Raises ``ValueError`` for a number that is none.
    """
    text = to_json(values_of(search), inf_nan_mode="constants", fallback=plain)
    if any(one in text for one in _NO_NUMBERS):
        # Perhaps a word of the question; the other way of writing tells.
        return encoded(search)
    return text.decode()
