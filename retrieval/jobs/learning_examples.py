"""The examples of a collection's feedback: verdicts with the searches that they are about, as models need them."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.learning.arms import read_decay
from retrieval.adapters.store.learning.training import (
    Rated,
    RatedSearch,
    read_item_clusters,
    read_rated_searches,
    read_verdicts,
)
from retrieval.domain.embedding import Vector
from retrieval.domain.errors import EmbedderError
from retrieval.domain.relevance import leg_features_again
from retrieval.jobs.workplace import Target, Workplace
from retrieval.learning.event import Event, faded
from retrieval.learning.examples import Example, Examples, Slate, unit

_log = logging.getLogger(__name__)

_TEXTS = 500

MOST_SEARCHES = 20_000
"""The latest rated searches that a model is fitted on and tried on."""


async def read_examples(workplace: Workplace, target: Target, *, until: datetime) -> Examples:
    """The verdicts that were there by then, with the searches that they are about."""
    database, tenant_id, collection_id = workplace.database, target.tenant_id, target.collection.collection_id
    verdicts = await read_verdicts(database, tenant_id, collection_id, until=until)
    ids = list(dict.fromkeys(one.retrieval_id for one in verdicts if one.retrieval_id))[:MOST_SEARCHES]
    searches: dict[UUID, _Search] = {}
    rated = _items_by_search(verdicts)
    async for page in read_rated_searches(database, tenant_id, collection_id, ids):
        searches |= {one.retrieval_id: _reduced(one, rated[one.retrieval_id]) for one in page}
    vectors = await _vectors(workplace, target, searches)
    half_life = timedelta(days=(await read_decay(database, tenant_id, collection_id)).half_life_days)
    seen = {item for search in searches.values() for item in search.shown} | {one.item_id for one in verdicts}
    return Examples(
        rated=_rated(verdicts, searches, vectors, until, half_life),
        slates=_slates(verdicts, searches, vectors),
        clusters=await read_item_clusters(database, tenant_id, collection_id, sorted(seen)),
    )


class _Search(NamedTuple):
    """A rated search, as far as something is learned from it."""

    question: str
    query: str
    vector: Vector | None
    shown: Sequence[str]
    relevance: Mapping[str, float]
    """By item: those shown or rated that its record knows."""
    legs: Mapping[str, Mapping[str, float]]
    """The same of each leg's scores from 0 to 1; of one leg alone, none."""


def _items_by_search(verdicts: Sequence[Rated]) -> dict[UUID, set[str]]:
    items: dict[UUID, set[str]] = defaultdict(set)
    for one in verdicts:
        if one.retrieval_id is not None:
            items[one.retrieval_id].add(one.item_id)
    return items


def _reduced(search: RatedSearch, rated: set[str]) -> _Search:
    wanted = rated | set(search.shown)
    signals = search.pool_signals
    # Without its profile, relevance is not known.
    pool = search.pool_items if "scaled" in signals else ()
    places = {item: place for place, item in enumerate(pool) if item in wanted}
    legs = leg_features_again(signals["legs"], signals["bests"])
    return _Search(
        question=search.query or str(search.retrieval_id),
        query=search.query,
        vector=search.vector,
        shown=[item for item in search.shown if item in places],
        relevance={item: signals["scaled"][place] for item, place in places.items()},
        legs={leg: {item: scores[place] for item, place in places.items()} for leg, scores in legs.items()},
    )


async def _vectors(workplace: Workplace, target: Target, searches: Mapping[UUID, _Search]) -> dict[UUID, Vector]:
    """The vectors of the searches: those given, and those of the words, most of which are cached."""
    found = {key: unit(one.vector) for key, one in searches.items() if one.vector is not None}
    space = target.collection.space
    embedder = workplace.embedder_of(target.tenant_id, space) if space else None
    asked = {key: one.query for key, one in searches.items() if one.vector is None and one.query}
    if embedder is None or not asked:
        return found
    by_text = await _embedded(embedder, list(dict.fromkeys(asked.values())))
    return found | {key: by_text[query] for key, query in asked.items() if query in by_text}


async def _embedded(embedder: CachedEmbedder, texts: Sequence[str]) -> dict[str, Vector]:
    vectors: dict[str, Vector] = {}
    for start in range(0, len(texts), _TEXTS):
        page = texts[start : start + _TEXTS]
        try:
            vectors |= zip(page, await embedder.embed_queries(page), strict=True)
        except EmbedderError as error:
            # What is learned without them is less, and not wrong.
            _log.warning("learning goes on without the vectors of %d queries: %s", len(texts) - len(vectors), error)
            break
    return vectors


def _rated(
    verdicts: Sequence[Rated],
    searches: Mapping[UUID, _Search],
    vectors: Mapping[UUID, Vector],
    until: datetime,
    half_life: timedelta,
) -> list[Example]:
    found = [searches.get(one.retrieval_id) if one.retrieval_id else None for one in verdicts]
    events = faded(map(_event, verdicts, found), until, half_life)
    return [
        Example(
            event=event,
            question=search.question if search else None if one.retrieval_id else "",
            vector=vectors.get(one.retrieval_id) if one.retrieval_id else None,
            received_at=one.received_at,
        )
        for one, event, search in zip(verdicts, events, found, strict=True)
    ]


def _event(one: Rated, search: _Search | None) -> Event:
    event = Event(
        item_id=one.item_id,
        buckets=one.contexts,
        reward=one.reward,
        weight=one.weight,
        occurred_at=one.occurred_at,
    )
    if search is None or one.item_id not in search.relevance:
        return event
    return replace(
        event,
        relevance=search.relevance[one.item_id],
        signals={leg: scores[one.item_id] for leg, scores in search.legs.items()},
        rank=search.shown.index(one.item_id) + 1 if one.item_id in search.shown else None,
    )


def _slates(verdicts: Sequence[Rated], searches: Mapping[UUID, _Search], vectors: Mapping[UUID, Vector]) -> list[Slate]:
    said: dict[UUID, list[Rated]] = defaultdict(list)
    for one in verdicts:
        if one.retrieval_id is not None and one.retrieval_id in searches:
            said[one.retrieval_id].append(one)
    return [_slate(searches[one], said[one], vectors.get(one)) for one in said]


def _slate(search: _Search, verdicts: Sequence[Rated], vector: Vector | None) -> Slate:
    return Slate(
        question=search.question,
        vector=vector,
        buckets=verdicts[0].contexts,
        item_ids=search.shown,
        relevance=[search.relevance[item] for item in search.shown],
        legs={leg: [scores[item] for item in search.shown] for leg, scores in search.legs.items()},
        rewards=[_mean([one for one in verdicts if one.item_id == item]) for item in search.shown],
    )


def _mean(verdicts: Sequence[Rated]) -> float | None:
    total = sum(one.weight for one in verdicts)
    return sum(one.weight * one.reward for one in verdicts) / total if total else None
