"""Comparing two profiles by the searches that showed the hits of both, mixed by team draft."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.learning.off_policy import interleaved_results
from retrieval.domain.errors import InvalidRequestError
from retrieval.learning.interleaving import Preference, preference
from retrieval.learning.verdict import Verdict, by_preference


@dataclass(frozen=True, slots=True, kw_only=True)
class InterleavedComparison:
    """Which of two profiles won more searches."""

    collection: str
    names: tuple[str, str]
    since: datetime
    searches: int
    """Interleaved ones, with feedback or without."""
    preference: Preference
    verdict: Verdict

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "collection": self.collection,
            "profile": self.names[0],
            "against": self.names[1],
            "since": self.since.isoformat(),
            "searches": self.searches,
            "preference": self.preference.as_dict(),
            "verdict": self.verdict.as_dict(),
        }


async def compare_interleaved(
    database: Database,
    tenant_id: int,
    collection: StoredCollection,
    first: str,
    second: str,
    *,
    since: datetime,
) -> InterleavedComparison:
    """Who won the interleaved searches since then; the names are those that the searches gave the two profiles.

    Raises ``InvalidRequestError`` for twice the same name or a time without a zone.
    """
    if first == second:
        raise InvalidRequestError(f"both profiles are {first!r}; name two that were interleaved")
    if since.tzinfo is None:
        raise InvalidRequestError("since has no time zone; use datetime(..., tzinfo=UTC)")
    names = (first, second)
    results = await interleaved_results(database, tenant_id, collection.collection_id, names=names, since=since)
    won = preference((one.first, one.second) for one in results if one.first is not None and one.second is not None)
    return InterleavedComparison(
        collection=collection.name,
        names=names,
        since=since,
        searches=len(results),
        preference=won,
        verdict=by_preference(names, won),
    )
