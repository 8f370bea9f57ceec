"""What is called about the recorded searches of a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from retrieval.domain.context import Context
from retrieval.domain.errors import InvalidLimitError
from retrieval.domain.retrieval_id import checked_id
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.request import MAX_LIMIT

if TYPE_CHECKING:
    from retrieval.domain.recorded_retrieval import RetrievalSummary


class RecordCalls(CollectionHandle):
    """The calls about records, for a collection to inherit; see docs/how-to/recording.md."""

    async def retrievals(
        self, *, limit: int = 20, before: UUID | str | None = None, session: str = ""
    ) -> list[RetrievalSummary]:
        """The recorded searches, the newest first; ``platform.retrieval`` has all about one.

        ``before``: the identifier of the last one of the page before; ``session``: of that session alone. Searches of
        this platform that wait to be recorded are recorded first. Raises ``InvalidLimitError`` for a limit outside 1 to
        1000, ``InvalidRequestError`` for what is no identifier and no session's name.
        """
        from retrieval.adapters.store.records.retrievals import retrievals_page

        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
            raise InvalidLimitError(f"limit is {limit!r:.80}; it must be a whole number from 1 to {MAX_LIMIT}")
        last = None if before is None else checked_id(before)
        name = Context(session=session).session
        if self._recorder is not None:
            await self._recorder.recorded()
        collection_id = (await self._fresh()).collection_id
        return await retrievals_page(
            self._database, self._tenant_id, collection_id, limit=limit, before=last, session=name
        )
