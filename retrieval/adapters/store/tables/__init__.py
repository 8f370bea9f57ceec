"""The tables, as SQLAlchemy knows them. Migrations make them; a test holds the two together.

Names are without a schema: every transaction sets its own search path (see ``database``).
"""

from __future__ import annotations

from retrieval.adapters.store.tables.collections import (
    TERM_DIMENSIONS,
    ann_indexes,
    api_keys,
    collection_attributes,
    collections,
    embedding_cache,
    embedding_spaces,
    idempotency_keys,
    job_runs,
    metadata,
    profiles,
    query_rewrites,
    query_samples,
    recall_measurements,
    reembeddings,
    tenants,
)
from retrieval.adapters.store.tables.items import (
    attribute_numbers,
    attribute_texts,
    attribute_times,
    collection_statistics,
    embeddings_table,
    item_places,
    item_tags,
    item_terms,
    items,
    memories,
    memory_links,
    own_vectors,
    statistics_changes,
    term_statistics,
)
from retrieval.adapters.store.tables.records import (
    analyst_logins,
    arm_baselines,
    arms,
    cluster_centroids,
    feedback,
    item_clusters,
    learned_models,
    learning_states,
    quarantines,
    recording_losses,
    retrievals,
    rewarded_queries,
)

__all__ = [
    "TERM_DIMENSIONS",
    "analyst_logins",
    "ann_indexes",
    "api_keys",
    "arm_baselines",
    "arms",
    "attribute_numbers",
    "attribute_texts",
    "attribute_times",
    "cluster_centroids",
    "collection_attributes",
    "collection_statistics",
    "collections",
    "embedding_cache",
    "embedding_spaces",
    "embeddings_table",
    "feedback",
    "idempotency_keys",
    "include_name",
    "item_clusters",
    "item_places",
    "item_tags",
    "item_terms",
    "items",
    "job_runs",
    "learned_models",
    "learning_states",
    "memories",
    "memory_links",
    "metadata",
    "own_vectors",
    "profiles",
    "quarantines",
    "query_rewrites",
    "query_samples",
    "recall_measurements",
    "recording_losses",
    "reembeddings",
    "retrievals",
    "rewarded_queries",
    "statistics_changes",
    "tenants",
    "term_statistics",
]

_MADE_LATER = ("embeddings_", "textsearch_", "retrievals_")


def include_name(name: str | None, kind: str, _parents: object) -> bool:
    """Tell whether Alembic compares it: not what the platform makes for spaces, pg_textsearch and months."""
    return not (kind == "table" and (name or "").startswith(_MADE_LATER))
