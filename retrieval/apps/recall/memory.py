"""The memory of an assistant in one object: it stores and answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from retrieval.apps.recall.entity import Entity, Recalled, TimeExpressions
from retrieval.apps.recall.retriever import RECALL_PROFILE, REWRITE_TIMEOUT_SECONDS, DualRetriever, utc_now
from retrieval.collection import Collection
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.context import Context
from retrieval.domain.llm import LLM
from retrieval.domain.search.filters import Filter, Where
from retrieval.domain.search.profile import Profile


class Memory:
    """A collection to store entities in, and a ``DualRetriever`` to find them."""

    def __init__(
        self,
        storage: Collection,
        llm: LLM | None,
        seed: int | None = None,
        *,
        profile: Profile | None = RECALL_PROFILE,
        rewrite_timeout_seconds: float = REWRITE_TIMEOUT_SECONDS,
        time_expressions: TimeExpressions | str = TimeExpressions.PREFER,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """Takes the arguments of ``DualRetriever``, with the same errors."""
        self._storage = storage
        self._retriever = DualRetriever(
            storage,
            llm,
            seed,
            profile=profile,
            rewrite_timeout_seconds=rewrite_timeout_seconds,
            time_expressions=time_expressions,
            clock=clock,
        )

    async def store(self, entity: Entity) -> Entity:
        """Store it in place of what has its ``id``, and give it back; what is there as it is costs nothing.

        Raises ``InvalidRequestError`` for what is no entity, and what ``Collection.add`` raises.
        """
        if not isinstance(entity, Entity):
            raise InvalidRequestError(
                f"an entity is stored, not {entity!r:.80}; give Entity(name=..., content=...), or add items to the "
                "collection itself"
            )
        await self._storage.add([entity.as_item()])
        return entity

    async def recall(
        self,
        query: str,
        *,
        limit: int = 10,
        deep_search: bool = True,
        time_range: tuple[datetime, datetime] | None = None,
        where: Where | Filter | None = None,
        as_of: datetime | None = None,
        context: Context = Context(),
    ) -> Recalled:
        """The entities for a question, best first: see ``DualRetriever.search``, with the same errors."""
        return await self._retriever.search(
            query,
            limit=limit,
            deep_search=deep_search,
            time_range=time_range,
            where=where,
            as_of=as_of,
            context=context,
        )
