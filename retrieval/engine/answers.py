"""Answers that applications put together themselves: their records, and the calls that keep and read them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.domain.checks import is_finite, is_storable
from retrieval.domain.errors import DatabaseError, InvalidLimitError, InvalidRequestError
from retrieval.domain.items.embedding import Vector
from retrieval.domain.learning.context import MAX_NAME_LENGTH, Context, checked_context
from retrieval.domain.records.retrieval_id import time_of, uuid7
from retrieval.domain.records.search_record import SearchRecord, shown_columns, unusual
from retrieval.domain.records.slate import ShownItem, Slot
from retrieval.domain.search.hit import Path
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.ranking import score_spread, top_score
from retrieval.engine.record import NO_POLICY, recorded_request
from retrieval.engine.recorder import Recorder
from retrieval.engine.request import MAX_LIMIT, SearchRequest, checked_item_ids, checked_query_vector, checked_words

if TYPE_CHECKING:
    from retrieval.domain.records.recorded import RecordedAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedAnswer:
    """An answer that an application showed, with all parts of its record."""

    retrieval_id: UUID
    collection_id: int
    query: str
    vector: Vector | None
    """The vector that the application searched with, shape (dimensions,), unit length; None: the words."""
    shown: Sequence[ShownItem]
    """The items in the order in which they were shown."""
    context: Context
    origin: str
    """The part of the application that put the answer together."""
    retrieval_time_ms: float
    notes: Sequence[str] = ()
    cluster: int | None = None
    model_version: int = 0

    def record(self) -> SearchRecord:
        """Everything that is kept. No legs ran, so what was shown is all that can be learned from."""
        retrieved_at = time_of(self.retrieval_id)
        asked = SearchRequest(
            query=self.query, vector=self.vector, limit=max(len(self.shown), 1), condition=None, profile=None
        )
        condition, request = recorded_request(asked)
        pool = sorted(self.shown, key=lambda one: (-one.relevance, one.item_id))
        return SearchRecord(
            collection_id=self.collection_id,
            retrieval_id=self.retrieval_id,
            retrieved_at=retrieved_at,
            actor=self.context.actor,
            session=self.context.session,
            domain=self.context.domain,
            complexity=self.context.complexity,
            cluster=self.cluster,
            query=self.query,
            vector=None if self.vector is None else self.vector.tolist(),
            condition=condition,
            request={**unusual(request), "origin": self.origin},
            profile_version=0,
            model_version=self.model_version,
            policy=self._policy,
            statistics_at=retrieved_at,
            seed=0,
            eligible=0,
            hits=len(self.shown),
            path=Path.NONE.value,
            notes=tuple(self.notes),
            timings_ms={},
            retrieval_time_ms=self.retrieval_time_ms,
            top_score=top_score(self.shown),
            score_spread=score_spread(self.shown),
            generation_triggered=self.context.generated,
            backtrack_count=self.context.backtracks,
            pool_items=[item.item_id for item in pool],
            measures=("relevance", "score"),
            pool_values=([item.relevance for item in pool], [item.score for item in pool]),
            **shown_columns(
                items=[item.item_id for item in self.shown],
                scores=[item.score for item in self.shown],
                slots=[item.slot for item in self.shown],
                propensities=[item.propensity for item in self.shown],
                rank_propensities=[
                    item.propensity if item.rank_propensity is None else item.rank_propensity for item in self.shown
                ],
            ),
            shown_signals=[{name: {"raw": value} for name, value in item.signals.items()} for item in self.shown],
        )

    @property
    def _policy(self) -> str:
        """Chance was the application's own, where there was any."""
        is_certain = all(
            item.slot is Slot.EXPLOIT and item.propensity == 1 and item.rank_propensity in (None, 1)
            for item in self.shown
        )
        return NO_POLICY if is_certain else f"{self.origin}/1"


def checked_shown(shown: object) -> tuple[ShownItem, ...]:
    """The items. Raises ``InvalidRequestError`` for anything else, one that comes twice, or more than 1000."""
    if isinstance(shown, str) or not isinstance(shown, Sequence):
        raise InvalidRequestError("what was shown comes in a list of ShownItem values")
    for one in shown:
        if not isinstance(one, ShownItem):
            raise InvalidRequestError(f"what was shown is a list of ShownItem values, not of {type(one).__name__}")
    if len(shown) > MAX_LIMIT:
        raise InvalidRequestError(f"{len(shown)} items were shown; an answer has at most {MAX_LIMIT}")
    ids = checked_item_ids([item.item_id for item in shown])
    if len(set(ids)) < len(ids):
        twice = next(item_id for item_id in ids if ids.count(item_id) > 1)
        raise InvalidRequestError(f"item {twice!r:.80} was shown twice; name each item once")
    return tuple(shown)


def checked_origin(origin: object) -> str:
    """The name. Raises ``InvalidRequestError`` for one that is empty, too long or no text."""
    if not is_storable(origin) or not 0 < len(origin.strip()) <= MAX_NAME_LENGTH:
        raise InvalidRequestError(
            f"origin is {origin!r:.80}; name what put the answer together, in at most {MAX_NAME_LENGTH} characters"
        )
    return origin.strip()


def checked_notes(notes: object) -> tuple[str, ...]:
    """The notes. Raises ``InvalidRequestError`` for what is no list of texts."""
    if isinstance(notes, str) or not isinstance(notes, Sequence):
        raise InvalidRequestError("notes come in a list of texts")
    for note in notes:
        if not is_storable(note):
            raise InvalidRequestError(f"a note is {note!r:.80}; it must be text without NUL")
    return tuple(notes)


def checked_ms(value: object) -> float:
    """The milliseconds. Raises ``InvalidRequestError`` for what is no finite number of at least 0."""
    if not is_finite(value) or value < 0:
        raise InvalidRequestError(f"retrieval_time_ms is {value!r:.80}; it must be a finite number of at least 0")
    return float(value)


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
        """Gives the answers of a session, the newest first: searches, and answers that an application put together.

        ``origin``: of these alone that were recorded with it; empty: searches. Answers of this platform that wait to be
        recorded are recorded first. Raises ``InvalidRequestError`` for an empty session, ``InvalidLimitError`` for a
        limit outside 1 to 1000.
        """
        from retrieval.adapters.store.records.retrievals import answers_of

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
