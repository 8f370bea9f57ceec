"""Calls that record answers which an application puts together itself, and the answers of a session."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.domain.context import Context, checked_context
from retrieval.domain.embedding import Vector
from retrieval.domain.errors import DatabaseError, InvalidLimitError, InvalidRequestError
from retrieval.domain.retrieval_id import uuid7
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.recorder import Recorder
from retrieval.engine.request import MAX_LIMIT, checked_query_vector, checked_words

if TYPE_CHECKING:
    from retrieval.domain.recorded_answer import RecordedAnswer
    from retrieval.domain.shown_item import ShownItem
    from retrieval.engine.composed_answer import ComposedAnswer

_log = logging.getLogger(__name__)


class AnswerCalls(CollectionHandle):
    """The calls about answers, for a collection to inherit; see docs/how-to/recording.md."""

    async def record_answer(
        self,
        query: str,
        shown: Sequence[ShownItem],
        *,
        origin: str,
        retrieval_time_ms: float,
        context: Context = Context(),
        vector: object = None,
        about: object = None,
        notes: Sequence[str] = (),
    ) -> UUID | None:
        """Record an answer that an application put together itself, as a search is recorded: behind the call.

        ``shown``: what was shown, in that order; ``origin`` names what put it together; ``vector``, shape
        (dimensions,), is what it looked for, where that was not the words themselves, and ``about`` what tells the
        question's cluster, where that vector does not (None: it does). Gives the identifier, under which
        feedback counts as for a search, in the buckets of the ``context``, and of the question's cluster where the
        vector was given or this process has that of the words at hand: nothing is embedded for it. None where it is
        not recorded: by the profile, for want of room, or in ``unrecorded`` collections. While the database is away,
        records wait as those of searches do. Raises ``InvalidRequestError`` and ``InvalidVectorError``.
        """
        from retrieval.engine.composed_answer import (
            ComposedAnswer,
            checked_ms,
            checked_notes,
            checked_origin,
            checked_shown,
        )

        asked, items = checked_words(query, self._bounds), checked_shown(shown)
        situation = checked_context(context)
        source, took, said = checked_origin(origin), checked_ms(retrieval_time_ms), checked_notes(notes)
        stored = await self._as_known()
        given = None if vector is None else checked_query_vector(vector, stored)
        told = given if about is None else checked_query_vector(about, stored)
        if self._recorder is None or not self._is_recorded(stored):
            return None
        cluster, model_version = await self._learned_for(stored, self._at_hand(asked, told))
        answer = ComposedAnswer(
            retrieval_id=uuid7(int(self._wall_clock() * 1000), self._chance),
            collection_id=stored.collection_id,
            query=asked,
            vector=given,
            shown=items,
            context=situation,
            origin=source,
            retrieval_time_ms=took,
            notes=said,
            cluster=cluster,
            model_version=model_version,
        )
        return answer.retrieval_id if await _kept(self._recorder, stored, answer) else None

    async def answers_of(self, session: str, *, origin: str | None = None, limit: int = 20) -> list[RecordedAnswer]:
        """What a session was answered, the newest first: searches, and answers that an application put together.

        ``origin``: of these alone that were recorded with it; empty: searches. Answers of this platform that wait to be
        recorded are recorded first. Raises ``InvalidRequestError`` for an empty session, ``InvalidLimitError`` for a
        limit outside 1 to 1000.
        """
        from retrieval.adapters.store.records.retrievals import answers_of
        from retrieval.engine.composed_answer import checked_origin

        if not Context(session=session).session:
            raise InvalidRequestError("name a session, as it was given with the search or the answer")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
            raise InvalidLimitError(f"limit is {limit!r}; it must be a whole number from 1 to {MAX_LIMIT}")
        wanted = origin if origin is None or origin == "" else checked_origin(origin)
        if self._recorder is not None:
            await self._recorder.recorded()
        collection_id = (await self._fresh()).collection_id
        return await answers_of(self._database, self._tenant_id, collection_id, session, origin=wanted, limit=limit)

    def _is_recorded(self, stored: StoredCollection) -> bool:
        rate = stored.profile.recording.rate
        return rate >= 1 or (rate > 0 and self._chance.random() < rate)

    async def _as_known(self) -> StoredCollection:
        """The collection as it is, or as it was read last while the database is away: then records wait."""
        try:
            return await self._fresh()
        except DatabaseError as error:
            _log.info("collection %s was not read again for a record: %s", self.name, error)
            return self._stored

    def _at_hand(self, words: str, given: Vector | None) -> Vector | None:
        """The vector that tells the cluster; a record does without where it would have to be waited for."""
        if given is not None or not words or self._embedder is None:
            return given
        return self._embedder.at_hand(words)

    async def _learned_for(self, stored: StoredCollection, vector: Vector | None) -> tuple[int | None, int]:
        """The cluster of the vector, and the version of the model in use; None and 0 where they cannot be read."""
        try:
            model = await self._models.serving(stored, stored.profile.learned)
            return await self._models.cluster(stored, vector), 0 if model is None else model.version
        except DatabaseError as error:
            _log.info("a record of %s does without cluster and model: %s", self.name, error)
            return None, 0


async def _kept(recorder: Recorder, stored: StoredCollection, answer: ComposedAnswer) -> bool:
    if stored.profile.recording.wait:
        return (await recorder.store([answer]))[0]
    return recorder.offer(answer)
