"""What interleaved searches earned, summed by ``sql/learning/off_policy.sql``."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database

_RESULTS = Compiled("""
    SELECT r.first_earned, r.second_earned
    FROM interleaved_results(%(collection_id)s, %(since)s, %(first)s, %(second)s) r
    ORDER BY r.retrieval_id
""")


class Earned(NamedTuple):
    """What the two profiles' hits earned in one search; None for both: nobody said anything."""

    first: float | None
    second: float | None


async def interleaved_results(
    database: Database, tenant_id: int, collection_id: int, *, names: tuple[str, str], since: datetime
) -> list[Earned]:
    """A result a search that showed the two profiles mixed."""
    first, second = names
    values = {"collection_id": collection_id, "since": since, "first": first, "second": second}
    return [Earned(*row) for row in await database.read(tenant_id, _RESULTS.bind(**values))]
