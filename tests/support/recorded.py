"""Recorded searches with feedback, put into the tables as a test needs them, past the recorder."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from retrieval.adapters.store.database import Connection
from tests.support.pools import columns_of, items_of

TRACES = (
    (
        "INSERT INTO retrievals (collection_id, retrieval_id, retrieved_at, query, condition, request, "
        "profile_version, model_version, policy, statistics_at, seed, eligible, hits, path, notes, timings_ms, "
        "retrieval_time_ms, generation_triggered, backtrack_count, pool_items, shown_items, shown_scores) "
        "VALUES (%(own)s, gen_random_uuid(), now(), "
        "'q', '{}', '{}', 1, 0, 'off/1', now(), 1, 0, 1, 'exact', '{}', '{}', 1, false, 0, '{1}', '{1}', '{1}')"
    ),
    "INSERT INTO recording_losses (collection_id, day, reason) VALUES (%(own)s, now(), 'overflow')",
    (
        "INSERT INTO feedback (collection_id, item_id, feedback_key, subject, kind, reward, weight, contexts, "
        "occurred_at) VALUES (%(own)s, '1', gen_random_uuid(), gen_random_uuid(), 'rating', 1, 1, '{\"\"}', now())"
    ),
    "INSERT INTO arms (collection_id, item_id, context, successes, failures) VALUES (%(own)s, '1', '', 1, 0)",
    "INSERT INTO learning_states (collection_id) VALUES (%(own)s)",
    (
        "INSERT INTO learned_models (collection_id, version, kind, definition, metrics, events, statistics_at, "
        "is_published, reason) VALUES (%(own)s, 1, 'shrinkage', '{}', '{}', 0, now(), true, 'better')"
    ),
    "INSERT INTO rewarded_queries VALUES (%(own)s, '1', 1, '[1]', 1)",
    "INSERT INTO memories VALUES (%(own)s, '1', now())",
    "INSERT INTO memory_links VALUES (%(own)s, 'questions', 'q1', '1', now())",
    "INSERT INTO item_places VALUES (%(own)s, '1', 'talk', 1, '')",
    (
        "INSERT INTO own_vectors "
        "SELECT collection_id, '1', space_id, '[1]', '' FROM collections WHERE collection_id = %(own)s "
        "ON CONFLICT DO NOTHING"
    ),
    (
        "INSERT INTO cluster_centroids (collection_id, space_id, cluster, centroid, items) "
        "SELECT collection_id, space_id, 0, '[1]', 1 FROM collections WHERE collection_id = %(own)s "
        "ON CONFLICT DO NOTHING"
    ),
    "INSERT INTO item_clusters (collection_id, item_id, cluster) VALUES (%(own)s, '1', 0)",
    "INSERT INTO arm_baselines (collection_id, item_id, context, successes, failures) VALUES (%(own)s, '1', '', 1, 0)",
    (
        "INSERT INTO quarantines (tenant_id, actor) "
        "SELECT tenant_id, 'spammer' FROM collections WHERE collection_id = %(own)s"
    ),
)
"""A row in each table of what searches, feedback and learning leave behind, of the collection ``own``."""

_RETRIEVAL = """
    INSERT INTO retrievals (
        collection_id, retrieval_id, retrieved_at, query, condition, request, profile_version, model_version, policy,
        statistics_at, seed, eligible, hits, path, notes, timings_ms, retrieval_time_ms, generation_triggered,
        backtrack_count, legs, bests, pool_items, pool_scores_exact, pool_ranks, shown_items, shown_scores,
        propensities, shown_signals
    ) VALUES (
        %(collection_id)s, %(retrieval_id)s, %(retrieved_at)s, 'words', '{}', %(request)s, 1, 0, 'off/1',
        %(retrieved_at)s, 1, 0, %(hits)s, 'exact', '{}', '{}', 1, false, 0, %(legs)s, %(bests)s,
        %(pool_items)s, %(pool_scores)s, %(pool_ranks)s, %(shown_items)s, %(shown_scores)s, %(propensities)s,
        %(shown_signals)s
    )
"""
_FEEDBACK = """
    INSERT INTO feedback (
        collection_id, item_id, feedback_key, subject, retrieval_id, kind, reward, weight, contexts, occurred_at,
        superseded_at
    ) VALUES (
        %(collection_id)s, %(item_id)s, %(key)s, %(key)s, %(retrieval_id)s, 'verdict', %(reward)s, %(weight)s, '{}',
        %(retrieved_at)s, %(superseded_at)s
    )
"""


@dataclass(frozen=True)
class Feedback:
    """A verdict on an impression."""

    reward: float
    weight: float = 1.0
    is_superseded: bool = False


@dataclass(frozen=True)
class Impression:
    """An impression."""

    item_id: str
    propensity: float = 1.0
    feedback: Sequence[Feedback] = ()
    signals: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recorded:
    """A search with its answer."""

    retrieved_at: datetime
    shown: Sequence[Impression]
    legs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The legs' scores by item; their items are the pool."""
    request: Mapping[str, Any] = field(default_factory=lambda: {"limit": 10})
    retrieval_id: uuid.UUID = field(default_factory=uuid.uuid4)


async def record(connection: Connection, collection_id: int, recorded: Sequence[Recorded]) -> None:
    """Store the searches, their hits and their feedback. The transaction acts as the tenant."""
    async with connection.cursor() as cursor:
        await cursor.executemany(_RETRIEVAL, [_retrieval(collection_id, search) for search in recorded])
        await cursor.executemany(_FEEDBACK, [row for search in recorded for row in _feedback(collection_id, search)])


def _retrieval(collection_id: int, search: Recorded) -> dict[str, Any]:
    columns = columns_of(search.legs)
    return {
        "collection_id": collection_id,
        "retrieval_id": search.retrieval_id,
        "retrieved_at": search.retrieved_at,
        "request": Jsonb(dict(search.request)),
        "hits": len(search.shown),
        "pool_items": items_of(search.legs),
        "legs": list(search.legs),
        "bests": list(map(float, columns["bests"].values())),
        "pool_scores": [list(row) for row in columns["scores"].values()],
        "pool_ranks": [[rank or 0 for rank in row] for row in columns["ranks"].values()],
        "shown_items": [hit.item_id for hit in search.shown],
        "shown_scores": [1.0 / rank for rank, _ in enumerate(search.shown, 1)],
        "propensities": [float(hit.propensity) for hit in search.shown],
        "shown_signals": Jsonb([dict(hit.signals) for hit in search.shown]),
    }


def _feedback(collection_id: int, search: Recorded) -> list[dict[str, Any]]:
    return [
        {
            "collection_id": collection_id,
            "retrieval_id": search.retrieval_id,
            "retrieved_at": search.retrieved_at,
            "item_id": hit.item_id,
            "key": uuid.uuid4(),
            "reward": event.reward,
            "weight": event.weight,
            "superseded_at": search.retrieved_at if event.is_superseded else None,
        }
        for hit in search.shown
        for event in hit.feedback
    ]
