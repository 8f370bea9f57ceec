"""Store many recorded searches by one statement, and read one by its identifier."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any
from uuid import UUID

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.records.recording_statement import COLUMNS, STORE_MANY, STORE_ONE, TOGETHER, row_names
from retrieval.adapters.store.round_trip import WrittenValue
from retrieval.domain.records.recorded import RecordedSearch, recorded_search
from retrieval.domain.records.retrieval_id import time_of
from retrieval.domain.records.search_record import SearchRecord
from retrieval.domain.search.profile import Profile

Losses = Mapping[tuple[int, date, str], int]
"""The numbers of searches that were not recorded, by collection, day and reason."""

_ONE, _MANY = Compiled(STORE_ONE, keep=0), Compiled(STORE_MANY, keep=0)
_FIND = Compiled(f"""
    SELECT {", ".join(f"r.{name}" for name in COLUMNS)}, coalesce(r.request -> 'profile', p.definition)
    FROM retrievals r LEFT JOIN profiles p ON p.collection_id = r.collection_id AND p.version = r.profile_version
    WHERE r.collection_id IN (SELECT c.collection_id FROM collections c WHERE c.tenant_id = %(tenant_id)s)
        AND r.retrieval_id = %(retrieval_id)s AND r.retrieved_at = %(retrieved_at)s
""")  # noqa: S608 - of the names above


async def store_recordings(
    database: Database, tenant_id: int, rows: Sequence[bytes], losses: Losses
) -> frozenset[UUID]:
    """Store at most 64 encoded records, and the losses, in one round trip and transaction; returns those stored.

    Records of a removed collection are not stored. Removed items get a random pseudonym, the same in the whole batch.
    The losses are stored once, with the first search or without any: a repetition must contain the same losses.
    """
    loss_rows = [
        {"collection_id": collection_id, "day": str(day), "reason": reason, "retrievals": number}
        for (collection_id, day, reason), number in sorted(losses.items())
    ]
    statement, most = (_ONE, 1) if len(rows) <= 1 else (_MANY, TOGETHER)
    row_values = dict.fromkeys(row_names(most)) | {
        name: WrittenValue(row) for name, row in zip(row_names(len(rows)), rows, strict=True)
    }
    bound = statement.bind(tenant_id=tenant_id, losses=json.dumps(loss_rows), are_alone=not rows, **row_values)
    return frozenset(row[0] for row in await database.write(tenant_id, bound, None))


async def find_recorded(database: Database, tenant_id: int, retrieval_id: UUID) -> RecordedSearch | None:
    """The tenant's recorded search of that identifier, or None."""
    key = {"tenant_id": tenant_id, "retrieval_id": retrieval_id, "retrieved_at": time_of(retrieval_id)}
    rows = await database.read(tenant_id, _FIND.bind(**key))
    if not rows:
        return None
    *values, definition = rows[0]
    profile = None if definition is None else Profile.from_dict(definition)
    return recorded_search(_record(dict(zip(COLUMNS, values, strict=True))), profile)


def _record(values: dict[str, Any]) -> SearchRecord:
    exact = values.pop("pool_scores_exact")
    values["pool_scores"] = values["pool_scores"] if exact is None else exact
    vector = None if values["vector"] is None else values["vector"].to_list()
    return SearchRecord(**{**values, "vector": vector})
