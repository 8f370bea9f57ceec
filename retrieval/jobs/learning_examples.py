"""The examples of a collection's feedback: verdicts with the searches that they are about, as models need them."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.training import (
    Rated,
    RatedSearch,
    read_half_life_days,
    read_item_clusters,
    read_rated_searches,
    read_verdicts,
)
from retrieval.domain.embedding import Vector
from retrieval.domain.errors import EmbedderError
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
    searches = {one.retrieval_id: one for one in await read_rated_searches(database, tenant_id, collection_id, ids)}
    vectors = await _vectors(workplace, target, list(searches.values()))
    half_life = timedelta(days=await read_half_life_days(database, tenant_id, collection_id))
    seen = {item for search in searches.values() for item in search.shown} | {one.item_id for one in verdicts}
    return Examples(
        rated=_rated(verdicts, searches, vectors, until, half_life),
        slates=_slates(verdicts, searches, vectors),
        clusters=await read_item_clusters(database, tenant_id, collection_id, sorted(seen)),
    )


async def _vectors(workplace: Workplace, target: Target, searches: Sequence[RatedSearch]) -> dict[UUID, Vector]:
    """The vectors of the searches: those given, and those of the words, most of which are cached."""
    found = {one.retrieval_id: unit(one.vector) for one in searches if one.vector is not None}
    space = target.collection.space
    embedder = workplace.embedder_of(target.tenant_id, space) if space else None
    asked = [one for one in searches if one.vector is None and one.query]
    if embedder is None or not asked:
        return found
    texts = list(dict.fromkeys(one.query for one in asked))
    by_text = await _embedded(embedder, texts)
    return found | {one.retrieval_id: by_text[one.query] for one in asked if one.query in by_text}


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
    searches: Mapping[UUID, RatedSearch],
    vectors: Mapping[UUID, Vector],
    until: datetime,
    half_life: timedelta,
) -> list[Example]:
    events = [_event(one, searches.get(one.retrieval_id) if one.retrieval_id else None) for one in verdicts]
    examples = []
    for one, event in zip(verdicts, faded(events, until, half_life), strict=True):
        search = searches.get(one.retrieval_id) if one.retrieval_id else None
        vector = vectors.get(search.retrieval_id) if search else None
        examples.append(Example(event=event, question=_question(search), vector=vector, received_at=one.received_at))
    return examples


def _question(search: RatedSearch | None) -> str:
    if search is None:
        return ""
    return search.query or str(search.retrieval_id)


def _event(one: Rated, search: RatedSearch | None) -> Event:
    event = Event(
        item_id=one.item_id,
        buckets=one.contexts,
        reward=one.reward,
        weight=one.weight,
        occurred_at=one.occurred_at,
    )
    if search is None or one.item_id not in search.pool_items:
        return event
    place = search.pool_items.index(one.item_id)
    return replace(
        event,
        relevance=search.pool_signals["scaled"][place],
        signals={leg: scores[place] for leg, scores in _leg_scores(search).items()},
        rank=search.shown.index(one.item_id) + 1 if one.item_id in search.shown else None,
    )


def _leg_scores(search: RatedSearch) -> dict[str, list[float]]:
    """Each leg's scores from 0 to 1, in the order of the pool; none where there is one leg, which relevance tells."""
    legs = search.pool_signals["legs"]
    if len(legs) < 2:
        return {}
    return {leg: [_between(raw, search.pool_signals["bounds"][leg]) for raw in scores] for leg, scores in legs.items()}


def _between(raw: float | None, ends: Sequence[float]) -> float:
    cut, best = ends
    if raw is None:
        return 0.0
    return min(1.0, max(0.0, (raw - cut) / (best - cut))) if best > cut else 1.0


def _slates(
    verdicts: Sequence[Rated], searches: Mapping[UUID, RatedSearch], vectors: Mapping[UUID, Vector]
) -> list[Slate]:
    said: dict[UUID, list[Rated]] = defaultdict(list)
    for one in verdicts:
        if one.retrieval_id is not None and one.retrieval_id in searches:
            said[one.retrieval_id].append(one)
    return [_slate(searches[one], said[one], vectors.get(one)) for one in said]


def _slate(search: RatedSearch, verdicts: Sequence[Rated], vector: Vector | None) -> Slate:
    places = {item: place for place, item in enumerate(search.pool_items)}
    shown = [item for item in search.shown if item in places]
    scaled, legs = search.pool_signals["scaled"], _leg_scores(search)
    return Slate(
        question=_question(search),
        vector=vector,
        buckets=verdicts[0].contexts,
        item_ids=shown,
        relevance=[scaled[places[item]] for item in shown],
        legs={leg: [scores[places[item]] for item in shown] for leg, scores in legs.items()},
        rewards=[_mean([one for one in verdicts if one.item_id == item]) for item in shown],
    )


def _mean(verdicts: Sequence[Rated]) -> float | None:
    total = sum(one.weight for one in verdicts)
    return sum(one.weight * one.reward for one in verdicts) / total if total else None
