"""The jobs that learn from feedback: fit, try and publish a model, recount arms, find clusters."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

import anyio
import numpy as np

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.learning import arms as stored_arms
from retrieval.adapters.store.learning import clusters as stored_clusters
from retrieval.adapters.store.learning import training
from retrieval.adapters.store.learning.models import RewardedQueries, add_model
from retrieval.adapters.store.learning.training import CountedVerdict, RatedSearch
from retrieval.adapters.store.search.vectors import StoredSpace, sample_vectors
from retrieval.domain.errors import EmbedderRejectedError
from retrieval.domain.items.embedding import Vector, Vectors
from retrieval.domain.search.fusion import leg_features_again
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.domain.words import question_of
from retrieval.engine.decide import Decider
from retrieval.learning.clusters import LEAST_ITEMS, centroids, nearest, number_of_clusters
from retrieval.learning.examples import Event, Examples, Slate, faded, unit
from retrieval.learning.learned_model import LearnedModel, fit
from retrieval.learning.trial import TrialOutcome, trial
from retrieval.services.workplace import JobTarget, Workplace

_log = logging.getLogger(__name__)

_TEXTS = 500

MOST_SEARCHES = 20_000
"""The latest rated searches that a model is fitted on and tried on."""


async def read_examples(workplace: Workplace, target: JobTarget, *, until: datetime) -> Examples:
    """The verdicts up to that time, with the searches that they are about."""
    place = workplace.place(target)
    verdicts = await training.read_verdicts(place, until=until)
    by_search: dict[UUID, list[CountedVerdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.retrieval_id is not None:
            by_search[verdict.retrieval_id].append(verdict)
    searches: dict[UUID, _Search] = {}
    async for page in training.read_rated_searches(place, list(by_search)[:MOST_SEARCHES]):
        for search in page:
            rated = {verdict.item_id for verdict in by_search[search.retrieval_id]}
            searches[search.retrieval_id] = _reduce(search, rated, target.collection.space_id)
    vectors = await _vectors(workplace, target, searches)
    half_life = timedelta(days=(await stored_arms.read_decay(place)).half_life_days)
    seen = sorted(
        {item for search in searches.values() for item in search.shown} | {verdict.item_id for verdict in verdicts}
    )
    return Examples(
        # Many of them take a second, which must not block the event loop.
        rated=await anyio.to_thread.run_sync(_rated_events, verdicts, searches, vectors, until, half_life),
        slates=await anyio.to_thread.run_sync(_slates, by_search, searches, vectors),
        clusters=await training.read_item_clusters(place, seen),
        octets=await training.read_item_octets(place, seen),
    )


_Vectors = Mapping[UUID, Vector]


class _Search(NamedTuple):
    """The parts of a rated search that a model learns from."""

    question: str
    """The key of what was asked."""
    query: str
    vector: Vector | None
    shown: Sequence[str]
    relevance: Mapping[str, float]
    """Relevance by item, of shown or rated items that the record has."""
    legs: Mapping[str, Mapping[str, float]]
    """Scores from 0 to 1 by leg and item; empty where there is one leg."""


_Searches = Mapping[UUID, _Search]


def _reduce(search: RatedSearch, rated: set[str], space_id: int | None) -> _Search:
    needed = rated | set(search.shown)
    signals = search.pool_signals
    # Without its profile, relevance is not known.
    pool = search.pool_items if "scaled" in signals else ()
    positions = {item: position for position, item in enumerate(pool) if item in needed}
    legs = leg_features_again(signals["legs"], signals["bests"])
    return _Search(
        question=_question(search),
        query=search.query,
        # A vector of a space that the collection has left cannot be compared with those of the present space.
        vector=search.vector if search.request.get("space_id") == space_id else None,
        shown=[item for item in search.shown if item in positions],
        relevance={item: signals["scaled"][position] for item, position in positions.items()},
        legs={leg: {item: scores[position] for item, position in positions.items()} for leg, scores in legs.items()},
    )


def _question(search: RatedSearch) -> str:
    """The key of what was asked: of its words, else of its vector."""
    vector = None if search.vector is None else blake2b(search.vector.tobytes()).hexdigest()
    return question_of(search.query) or vector or str(search.retrieval_id)


async def _vectors(workplace: Workplace, target: JobTarget, searches: _Searches) -> dict[UUID, Vector]:
    """The vectors of the searches: those given, and those of the words, most of which are cached."""
    vectors = {key: unit(search.vector) for key, search in searches.items() if search.vector is not None}
    space = target.collection.space
    embedder = workplace.embedder_of(target.tenant_id, space) if space else None
    queries = {key: search.query for key, search in searches.items() if search.vector is None and search.query}
    if embedder is None or not queries:
        return vectors
    by_text = await _embed(embedder, list(dict.fromkeys(queries.values())))
    return vectors | {key: by_text[query] for key, query in queries.items() if query in by_text}


async def _embed(embedder: CachedEmbedder, texts: Sequence[str]) -> dict[str, Vector]:
    """The vectors by text, without those of a page that is refused.

    Raises ``EmbedderUnavailableError``: what a model would lose without vectors that come later must not end its use.
    """
    vectors: dict[str, Vector] = {}
    for start in range(0, len(texts), _TEXTS):
        page = texts[start : start + _TEXTS]
        try:
            vectors |= zip(page, await embedder.embed_queries(page), strict=True)
        except EmbedderRejectedError as error:
            # Without these vectors the model learns less, but nothing wrong.
            _log.warning("learning goes on without the vectors of %d queries: %s", len(page), error)
    return vectors


def _rated_events(
    verdicts: Sequence[CountedVerdict], searches: _Searches, vectors: _Vectors, until: datetime, half_life: timedelta
) -> list[Event]:
    events = []
    for verdict in verdicts:
        event = Event(
            item_id=verdict.item_id,
            buckets=verdict.contexts,
            reward=verdict.reward,
            weight=verdict.weight,
            occurred_at=verdict.occurred_at,
            question="" if verdict.retrieval_id is None else None,
        )
        if verdict.retrieval_id is not None and (search := searches.get(verdict.retrieval_id)) is not None:
            event = replace(event, question=search.question, vector=vectors.get(verdict.retrieval_id))
            if verdict.item_id in search.relevance:
                event = replace(
                    event,
                    relevance=search.relevance[verdict.item_id],
                    signals={leg: scores[verdict.item_id] for leg, scores in search.legs.items()},
                    rank=search.shown.index(verdict.item_id) + 1 if verdict.item_id in search.shown else None,
                )
        events.append(event)
    return faded(events, until, half_life)


def _slates(by_search: Mapping[UUID, Sequence[CountedVerdict]], searches: _Searches, vectors: _Vectors) -> list[Slate]:
    return [
        Slate(
            question=search.question,
            vector=vectors.get(key),
            buckets=verdicts[0].contexts,
            item_ids=search.shown,
            relevance=[search.relevance[item] for item in search.shown],
            legs={leg: [scores[item] for item in search.shown] for leg, scores in search.legs.items()},
            rewards=[_mean([verdict for verdict in verdicts if verdict.item_id == item]) for item in search.shown],
        )
        for key, verdicts in by_search.items()
        if (search := searches.get(key)) is not None
    ]


def _mean(verdicts: Sequence[CountedVerdict]) -> float | None:
    total = sum(verdict.weight for verdict in verdicts)
    return sum(verdict.weight * verdict.reward for verdict in verdicts) / total if total else None


LEAST_VERDICTS = 50
"""The number of verdicts that came, or went, from which a new model is fitted."""

UNUSED = "the profile does not use what is learned"


async def is_there_to_learn(workplace: Workplace, target: JobTarget) -> bool:
    """True if enough verdicts came since the last fit, or what the model in use rests on has changed since."""
    collection, place = target.collection, workplace.place(target)
    least = min(LEAST_VERDICTS, collection.profile.learned.trusted_from or LEAST_VERDICTS)
    last = await training.read_last_fit(place)
    if await training.count_received_verdicts(place, since=last and last.statistics_at, most=least) >= least:
        return True
    if last is None or not collection.model_version:
        return False
    learned = collection.profile.learned
    is_of_other_space = collection.space is not None and last.space_id not in (None, collection.space.space_id)
    has_other_share = learned.combination is Combination.SUM and last.share not in (None, learned.share)
    if is_of_other_space or has_other_share:
        return True
    if await training.count_lost_verdicts(place, since=last.statistics_at, most=least) >= least:
        return True
    # The last fit had as many verdicts as the profile trusts: are fewer left?
    trusted_from = learned.trusted_from
    if trusted_from is None or last.events < trusted_from:
        return False
    return await training.count_received_verdicts(place, since=None, most=trusted_from) < trusted_from


async def learn(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
    """Fit a model on all feedback, and publish it if a trial shows it to be better than relevance alone.

    With ``trusted_from`` in the profile, a model of at least that many verdicts is published whatever the trial says.
    A model that is not published takes the former one out of use: ``withdrawn`` is its version.
    """
    until = datetime.now(UTC)
    collection = target.collection
    examples = await read_examples(workplace, target, until=until)
    workplace.advance(len(examples.rated))
    if not examples.rated and not collection.model_version:
        return {"verdicts": 0, "published": False, "reason": "there is no feedback that counts"}
    in_use = await Decider(workplace.database, target.tenant_id).model(
        collection.collection_id, collection.model_version
    )
    share = collection.profile.learned.share
    outcomes = await anyio.to_thread.run_sync(lambda: trial(examples, share=share, in_use=in_use))
    workplace.end_of_step()
    fitted = await anyio.to_thread.run_sync(fit, examples)
    passed = frozenset(combination for combination, outcome in outcomes.items() if outcome.passed)
    stack_outcome = outcomes[Combination.LOGIT_STACK]
    model = LearnedModel(
        version=0,
        reward=fitted.reward,
        by_item=fitted.by_item,
        stack=fitted.shared if stack_outcome.passed and stack_outcome.is_shared else fitted.stack,
        passed=passed,
        share=share,
        space_id=collection.space_id,
    )
    is_published = bool(passed) or model.is_trusted(collection.profile.learned)
    reason = _reason(outcomes, model, collection.profile.learned)
    async with workplace.database.transaction(target.tenant_id) as connection:
        added = await add_model(
            connection,
            collection.collection_id,
            kind=fitted.reward.kind,
            # A refused model is never used: it is enough to know for what it was fitted, and the reason.
            definition=model.as_dict() if is_published else model.settings(),
            metrics={combination.value: outcome.as_dict() for combination, outcome in outcomes.items()},
            events=len(examples.rated),
            statistics_at=until,
            is_published=is_published,
            reason=reason,
            queries=[
                RewardedQueries(item, unit(direction.total), direction.rewards)
                for item, direction in sorted(fitted.directions.items())
                if np.linalg.norm(direction.total) > 1e-6
            ],
        )
    report = {
        "verdicts": len(examples.rated),
        "version": added.version,
        "published": is_published,
        "passed": sorted(passed),
        "reason": reason,
    }
    return report | ({"withdrawn": added.former} if added.former and not added.in_use else {})


def _reason(outcomes: Mapping[Combination, TrialOutcome], model: LearnedModel, learned: Learned) -> str:
    """The reason why the model is used, or is not."""
    outcome = outcomes.get(learned.combination)
    if outcome is None:
        return UNUSED
    if not outcome.passed and model.is_trusted(learned):
        return f"trusted from {learned.trusted_from} verdicts on, as the profile says; its trial: {outcome.reason}"
    others = [each.value for each in sorted(model.passed - {learned.combination})]
    if others and not outcome.passed:
        return f"{outcome.reason}; {others[0]} passed: a profile with learned.combination {others[0]} uses the model"
    return outcome.reason


PAGE_ITEMS = 500
MOST_HALF_LIVES = 100
"""The most half-lives between landmark and now before the landmark is moved."""


async def has_feedback(workplace: Workplace, target: JobTarget) -> bool:
    """True if the collection has any arm or event."""
    return bool(await stored_arms.items_with_feedback(workplace.place(target), after="", most=1))


async def keep_arms(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
    """Recount every arm of the collection from its events, page by page, and correct those that differ.

    Each page is correct when it is done: an interruption costs nothing. A difference is a defect, and is logged.
    """
    moment, place = workplace.now(), workplace.place(target)
    decay = await stored_arms.read_decay(place)
    is_moved = abs(moment - decay.landmark) > MOST_HALF_LIVES * timedelta(days=decay.half_life_days)
    if is_moved:
        await stored_arms.set_decay(place, replace(decay, landmark=moment), moment)
    days = workplace.settings.retention_feedback_days
    arms = mended = retired = 0
    after = ""
    while page := await stored_arms.items_with_feedback(place, after=after, most=PAGE_ITEMS):
        if days is not None:
            retired += await stored_arms.retire_feedback(place, page, received_before=moment - timedelta(days=days))
        counted, off = await stored_arms.recount_arms(place, page)
        arms, mended, after = arms + counted, mended + off, page[-1]
        workplace.end_of_step(arms)
    if mended:
        _log.warning(
            "%d of %d arms of %s had drifted from their events, and were mended", mended, arms, target.collection.name
        )
    return {"arms": arms, "mended": mended, "retired": retired, "landmark_moved": is_moved}


GROWTH = 2.0
"""Centroids are computed again when the collection has grown by this factor since."""

MOST_SAMPLED = 20_000
_PAGE = 5_000
_SEED = 1


async def are_clusters_needed(workplace: Workplace, target: JobTarget) -> bool:
    """True if there is feedback to learn by cluster, and items without a cluster or outdated centroids."""
    collection, space = target.collection, target.collection.space
    if space is None or collection.documents < LEAST_ITEMS:
        return False
    size_at_fit, has_feedback, is_waiting = await stored_clusters.cluster_state(workplace.place(target), space)
    return has_feedback and (is_waiting or collection.documents > GROWTH * size_at_fit)


async def find_clusters(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
    """Find the centroids where there are none or the collection has outgrown them, and give items their clusters.

    New centroids start from the old ones, so that what was learned about a cluster stays with it.
    """
    space, collection = target.collection.space, target.collection
    if space is None or collection.documents < LEAST_ITEMS:
        return {"clusters": 0, "assigned": 0}
    place = workplace.place(target)
    size_at_fit, _, _ = await stored_clusters.cluster_state(place, space)
    known = await stored_clusters.read_centroids(place, space.space_id)
    is_outgrown = known is None or collection.documents > GROWTH * size_at_fit
    if known is None or is_outgrown:
        computed = await _new_centroids(workplace, target, space, known)
        if computed is None:
            return {"clusters": 0 if known is None else len(known), "assigned": 0}
        known = computed
    after, assigned = "", 0
    while page := await stored_clusters.vectors_to_assign(place, space, after=after, every=is_outgrown, limit=_PAGE):
        numbers = nearest(np.asarray([vector for _, vector in page]), known)
        clusters = {item_id: int(number) for (item_id, _), number in zip(page, numbers, strict=True)}
        await stored_clusters.assign_clusters(place, clusters)
        after, assigned = page[-1][0], assigned + len(page)
        workplace.end_of_step(assigned)
    if is_outgrown:
        await stored_clusters.settle_centroids(place, space.space_id, items=collection.documents)
    return {"clusters": len(known), "assigned": assigned}


async def _new_centroids(
    workplace: Workplace, target: JobTarget, space: StoredSpace, before: Vectors | None
) -> Vectors | None:
    """The new centroids; None: too few items have a vector yet."""
    sample = await sample_vectors(workplace.place(target), space, MOST_SAMPLED)
    if len(sample) < LEAST_ITEMS:
        return None
    vectors = np.asarray([vector for _, vector in sample])
    # It takes seconds, in which a worker has to send its heartbeat and a service to answer.
    compute = partial(centroids, vectors, number_of_clusters(len(sample)), seed=_SEED, start=before)
    computed = await anyio.to_thread.run_sync(compute)
    async with workplace.database.transaction(target.tenant_id) as connection:
        await stored_clusters.keep_centroids(connection, target.collection.collection_id, space.space_id, computed)
    return computed
