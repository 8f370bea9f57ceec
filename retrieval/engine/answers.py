"""Answers that applications compose: recorded, and read together with those of searches."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from uuid import UUID

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.records import retrievals
from retrieval.domain.checks import checked_limit, checked_list, checked_number, is_storable, written
from retrieval.domain.errors import DatabaseError, InvalidRequestError
from retrieval.domain.items.embedding import Vector
from retrieval.domain.learning.context import MAX_NAME_LENGTH, Context, checked_context
from retrieval.domain.records.recorded import RecordedAnswer
from retrieval.domain.records.retrieval_id import uuid7
from retrieval.domain.records.search_record import ComposedAnswer
from retrieval.domain.records.slate import ShownItem
from retrieval.domain.search.profile import Profile
from retrieval.engine.collection_handle import CollectionHandle, checks_existence
from retrieval.engine.recorder import is_sampled
from retrieval.engine.request import MAX_LIMIT, checked_item_ids, checked_query_vector, checked_words


def checked_shown(shown: object) -> tuple[ShownItem, ...]:
    """The items. Raises ``InvalidRequestError`` for other values, an item given twice, or more than 1000 items."""
    items = checked_list("shown items", shown, "[ShownItem(...)]")
    for item in items:
        if not isinstance(item, ShownItem):
            raise InvalidRequestError(f"shown is a list of ShownItem values, not of {type(item).__name__}")
    if len(items) > MAX_LIMIT:
        raise InvalidRequestError(f"{len(items)} items were shown; an answer has at most {MAX_LIMIT}")
    ids = checked_item_ids([item.item_id for item in items])
    if len(set(ids)) < len(ids):
        repeated_id = next(item_id for item_id in ids if ids.count(item_id) > 1)
        raise InvalidRequestError(f"item {written(repeated_id)} was shown twice; name each item once")
    return tuple(items)


def checked_origin(origin: object) -> str:
    """The origin's name. Raises ``InvalidRequestError`` for a name that is empty, too long or not a text."""
    if not is_storable(origin) or not 0 < len(origin.strip()) <= MAX_NAME_LENGTH:
        raise InvalidRequestError(
            f"origin is {written(origin)}; it must be a name of at most {MAX_NAME_LENGTH} characters"
        )
    return origin.strip()


def checked_notes(notes: object) -> tuple[str, ...]:
    """The notes. Raises ``InvalidRequestError`` for anything but a list of texts."""
    texts = checked_list("notes", notes, "['a note']")
    for note in texts:
        if not is_storable(note):
            raise InvalidRequestError(f"a note is {written(note)}; it must be text without NUL")
    return tuple(texts)


_log = logging.getLogger(__name__)


@checks_existence
async def record_answer(
    handle: CollectionHandle,
    query: str,
    shown: Sequence[ShownItem],
    *,
    origin: str,
    retrieval_time_ms: float,
    context: Context,
    vector: object,
    about: object,
    notes: Sequence[str],
) -> UUID | None:
    """See ``Collection.record_answer``."""
    shared = handle.shared
    words, items = checked_words(query, shared.bounds), checked_shown(shown)
    checked_context(context)
    name, note_texts = checked_origin(origin), checked_notes(notes)
    milliseconds = checked_number("retrieval_time_ms", retrieval_time_ms, sys.float_info.max)
    stored = await _last_state(handle)
    query_vector = None if vector is None else checked_query_vector(vector, stored)
    about_vector = query_vector if about is None else checked_query_vector(about, stored, "about")
    if not handle.is_recorded or not is_sampled(stored.profile.recording, shared.chance):
        return None
    cluster, model_version = await learned_state(handle, stored, words, about_vector, [stored.profile])
    answer = ComposedAnswer(
        retrieval_id=uuid7(int(shared.wall_clock() * 1000), shared.chance),
        collection_id=stored.collection_id,
        query=words,
        vector=query_vector,
        space_id=None if stored.space is None else stored.space.space_id,
        shown=items,
        context=context,
        origin=name,
        retrieval_time_ms=milliseconds,
        notes=note_texts,
        cluster=cluster,
        model_version=model_version,
    )
    if stored.profile.recording.wait:
        [is_kept] = await shared.recorder.store([answer])
    else:
        is_kept = shared.recorder.offer(answer)
    return answer.retrieval_id if is_kept else None


async def answers_of(handle: CollectionHandle, session: str, *, origin: str | None, limit: int) -> list[RecordedAnswer]:
    """See ``Collection.answers_of``."""
    if not Context(session=session).session:
        raise InvalidRequestError("name a session, as it was given with the search or the answer")
    checked_limit(limit, MAX_LIMIT)
    name = origin if origin is None or origin == "" else checked_origin(origin)
    await handle.recorded()
    return await retrievals.answers_of(await handle.place(), session, origin=name, limit=limit)


async def _last_state(handle: CollectionHandle) -> StoredCollection:
    """The collection, or the state last read while the database is unreachable and records wait."""
    try:
        return await handle.fresh()
    except DatabaseError as error:
        _log.info("collection %s was not read again for a record: %s", handle.name, error)
        return handle.stored


async def learned_state(
    handle: CollectionHandle,
    stored: StoredCollection,
    words: str,
    vector: Vector | None,
    profiles: Sequence[Profile],
) -> tuple[int | None, int]:
    """The cluster of the vector, else of the words, and the version of the model that one of the profiles uses.

    None and 0 where they cannot be read; None also for words that this process has not embedded.
    """
    decider = handle.shared.decider
    if vector is None and words and (embedder := handle.embedder_of(stored)) is not None:
        vector = embedder.at_hand(words)  # a record does not wait for an embedding
    try:
        models = [await decider.serving(stored, profile.learned) for profile in profiles]
        version = next((model.version for model in models if model is not None), 0)
        return await decider.cluster(stored, vector), version
    except DatabaseError as error:
        _log.info("a record of %s has no cluster and no model: %s", handle.name, error)
        return None, 0
