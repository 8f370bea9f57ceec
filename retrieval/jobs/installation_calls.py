"""What is called about all that a tenant has: what was recorded, and how its collections stand."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING
from uuid import UUID

from retrieval.engine.feedback_calls import FeedbackCalls
from retrieval.jobs.workplace import Workplace

if TYPE_CHECKING:
    from retrieval.domain.recorded_retrieval import RecordedRetrieval
    from retrieval.engine.replay import Replay
    from retrieval.jobs.status import CollectionStatus


class InstallationCalls(FeedbackCalls):
    """The calls about records and the state of things, for the platform to inherit."""

    @property
    @abstractmethod
    def workplace(self) -> Workplace:
        """What jobs need."""

    async def retrieval(self, retrieval_id: UUID | str, collection: str | None = None) -> RecordedRetrieval:
        """A recorded search: what was asked, in what context, how it was answered, and what was shown.

        With a ``collection``, of its searches alone. Raises ``UnknownRetrievalError`` where there is no such record,
        and ``InvalidRequestError`` for what is no identifier.
        """
        from retrieval.jobs.replay import read_retrieval

        await self.recorded()
        return await read_retrieval(self.database, self.tenant_id, retrieval_id, collection)

    async def replay(self, retrieval_id: UUID | str, collection: str | None = None) -> Replay:
        """Whether a recorded ranking follows from its record, and where and why today's answer differs, hit by hit.

        With a ``collection``, of its searches alone. The search is asked again and not recorded. Raises
        ``UnknownRetrievalError`` where there is no such record, and ``InvalidRequestError`` for what is no identifier.
        """
        from retrieval.jobs.replay import replay

        await self.recorded()
        return await replay(self.workplace, self.tenant_id, retrieval_id, collection)

    async def statistics(self) -> list[CollectionStatus]:
        """How each of the tenant's collections stands: what is stored, what waits, what ran, what was measured."""
        # Jobs come with it, and a process that only searches should not wait for them.
        from retrieval.jobs.status import collection_statuses

        return await collection_statuses(self.workplace, self.tenant_id)
