"""The recorded searches of a collection, page by page, the newest first."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.recorded_retrieval import RetrievalSummary
from retrieval.domain.retrieval_id import time_of

_COLUMNS = """
    r.retrieval_id, r.retrieved_at, r.query, coalesce(r.request ->> 'origin', ''), r.actor, r.session, r.domain,
    r.profile_version, r.path, r.hits, r.top_score, r.retrieval_time_ms
"""
_OF_SESSION = "AND r.session = %(session)s AND r.session <> ''"
# The first condition says the same more loosely: it chooses the months and the place in the index.
_BEFORE = "AND r.retrieved_at <= %(moment)s AND (r.retrieved_at, r.retrieval_id) < (%(moment)s, %(before)s::uuid)"


def _page(*conditions: str) -> Compiled:
    return Compiled(f"""
        SELECT {_COLUMNS} FROM retrievals AS r WHERE r.collection_id = %(collection_id)s {" ".join(conditions)}
        ORDER BY r.retrieved_at DESC, r.retrieval_id DESC LIMIT %(limit)s
    """)  # noqa: S608 - of the texts above


_PAGES = {
    (False, False): _page(),
    (False, True): _page(_BEFORE),
    (True, False): _page(_OF_SESSION),
    (True, True): _page(_OF_SESSION, _BEFORE),
}
"""The statement by whether it is of a session, and whether it goes on behind a search."""


async def retrievals_page(
    database: Database, tenant_id: int, collection_id: int, *, limit: int, before: UUID | None, session: str
) -> list[RetrievalSummary]:
    """The latest so many; ``before`` None: of all, else of those before that one; ``session`` empty: of any."""
    values: dict[str, Any] = {"collection_id": collection_id, "limit": limit}
    if session:
        values |= {"session": session}
    if before is not None:
        values |= {"before": before, "moment": time_of(before)}
    statement = _PAGES[bool(session), before is not None].bind(**values)
    return [RetrievalSummary(**dict(zip(RetrievalSummary.__slots__, row, strict=True)))
            for row in await database.read(tenant_id, statement)]  # fmt: skip
