"""The tables, as SQLAlchemy knows them. Migrations make them; a test holds the two together.

Names are without a schema: every transaction sets its own search path (see ``database``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pgvector.sqlalchemy import HALFVEC, SPARSEVEC
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REAL, UUID

_MADE_LATER = ("embeddings_", "textsearch_", "retrievals_", "impressions_")

TERM_DIMENSIONS = 1_000_000_000
"""The most that a sparsevec may have: the space of hashed lexemes."""

metadata = MetaData(
    naming_convention={
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "pk": "%(table_name)s_pkey",
    }
)


def _key(name: str) -> Column[str]:
    """An application's own key: compared byte by byte, so that no collation can make two keys one."""
    return Column(name, Text(collation="C"), nullable=False)


def _now(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


def _collection_id(*, references: bool = True) -> Column[int]:
    owner = [ForeignKey("collections.collection_id", ondelete="CASCADE")] if references else []
    return Column("collection_id", BigInteger, *owner, primary_key=True, autoincrement=False)


tenants = Table(
    "tenants",
    metadata,
    Column("tenant_id", BigInteger, Identity(always=True), primary_key=True),
    _key("name"),
    _now("created_at"),
    UniqueConstraint("name"),
)

embedding_spaces = Table(
    "embedding_spaces",
    metadata,
    Column("space_id", BigInteger, Identity(always=True), primary_key=True),
    Column("provider", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("revision", Text, nullable=False),
    Column("dimensions", Integer, nullable=False),
    Column("distance", Text, nullable=False),
    Column("document_prefix", Text, nullable=False),
    Column("query_prefix", Text, nullable=False),
    _now("created_at"),
    UniqueConstraint(
        "provider", "model", "revision", "dimensions", "distance", "document_prefix", "query_prefix",
        name="embedding_spaces_identity_key",
    ),
)  # fmt: skip

collections = Table(
    "collections",
    metadata,
    Column("collection_id", BigInteger, Identity(always=True), primary_key=True),
    Column("tenant_id", BigInteger, ForeignKey("tenants.tenant_id"), nullable=False),
    _key("name"),
    Column("text_search_config", Text, nullable=False, server_default=text("'english'")),
    Column("space_id", BigInteger, ForeignKey("embedding_spaces.space_id")),
    Column("profile_version", Integer, nullable=False, server_default=text("1")),
    _now("created_at"),
    Column("neighbours", JSONB),
    UniqueConstraint("tenant_id", "name"),
)

profiles = Table(
    "profiles",
    metadata,
    _collection_id(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("definition", JSONB, nullable=False),
    Column("note", Text, nullable=False, server_default=text("''")),
    _now("created_at"),
)

items = Table(
    "items",
    metadata,
    _collection_id(),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("tags", ARRAY(Text), nullable=False),
    Column("attributes", JSONB, nullable=False),
    Column("status", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("occurred_at", DateTime(timezone=True)),
    _now("created_at"),
    _now("updated_at"),
    Column("content_hash", LargeBinary, nullable=False),
    Column("text_hash", LargeBinary, nullable=False),
    # Only a filter on that very field can use these; nothing else is led to read a collection's items by them.
    Index(None, "collection_id", "occurred_at", "item_id", postgresql_where=text("occurred_at IS NOT NULL")),
    Index(None, "collection_id", "kind", "item_id", postgresql_where=text("kind <> '' AND status <> 'archived'")),
    Index(None, "collection_id", "source", "item_id", postgresql_where=text("source <> '' AND status <> 'archived'")),
    postgresql_with={"fillfactor": "90"},
)

item_terms = Table(
    "item_terms",
    metadata,
    _collection_id(references=False),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("lexemes", ARRAY(Integer), nullable=False),
    Column("frequencies", ARRAY(SmallInteger), nullable=False),
    Column("length", Integer, nullable=False),
    Column("weights", SPARSEVEC(TERM_DIMENSIONS), nullable=False),
    ForeignKeyConstraint(["collection_id", "item_id"], ["items.collection_id", "items.item_id"], ondelete="CASCADE"),
    Index(None, "lexemes", postgresql_using="gin"),
    postgresql_with={"toast_tuple_target": "8160"},
)

term_statistics = Table(
    "term_statistics",
    metadata,
    _collection_id(),
    Column("lexeme", Integer, primary_key=True, autoincrement=False),
    Column("document_frequency", Integer, nullable=False),
    Column("term", Text(collation="C")),
    Index(None, "collection_id", "term"),
    postgresql_with={"fillfactor": "70"},
)

collection_statistics = Table(
    "collection_statistics",
    metadata,
    _collection_id(),
    Column("documents", BigInteger, nullable=False),
    Column("total_length", BigInteger, nullable=False),
    Column("weighed_length", REAL),
    Column("weighing_after", Text(collation="C")),
    Column("windowing_after", Text(collation="C")),
    postgresql_with={"fillfactor": "50"},
)

# Of collections whose items are indexed with their neighbours alone.
item_places = Table(
    "item_places",
    metadata,
    _collection_id(references=False),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("sequence", Text(collation="C"), nullable=False),
    Column("place", Double, nullable=False),
    Column("text_hash", LargeBinary, nullable=False),
    ForeignKeyConstraint(["collection_id", "item_id"], ["items.collection_id", "items.item_id"], ondelete="CASCADE"),
    Index("item_places_in_order_idx", "collection_id", "sequence", "place", "item_id"),
)

own_vectors = Table(
    "own_vectors",
    metadata,
    _collection_id(references=False),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("space_id", BigInteger, ForeignKey("embedding_spaces.space_id", ondelete="CASCADE"), primary_key=True),
    Column("vector", HALFVEC, nullable=False),
    Column("content_hash", LargeBinary, nullable=False),
    ForeignKeyConstraint(["collection_id", "item_id"], ["items.collection_id", "items.item_id"], ondelete="CASCADE"),
)

collection_attributes = Table(
    "collection_attributes",
    metadata,
    _collection_id(),
    Column("name", Text(collation="C"), primary_key=True),
    Column("types", ARRAY(Text), nullable=False),
    Column("filterable", Text),
)

embedding_cache = Table(
    "embedding_cache",
    metadata,
    Column("tenant_id", BigInteger, ForeignKey("tenants.tenant_id", ondelete="CASCADE"), primary_key=True),
    Column("space_id", BigInteger, ForeignKey("embedding_spaces.space_id", ondelete="CASCADE"), primary_key=True),
    Column("text_hash", LargeBinary, primary_key=True),
    Column("vector", HALFVEC, nullable=False),
    _now("created_at"),
)

query_rewrites = Table(
    "query_rewrites",
    metadata,
    Column("tenant_id", BigInteger, ForeignKey("tenants.tenant_id", ondelete="CASCADE"), primary_key=True),
    Column("model", Text(collation="C"), primary_key=True),
    Column("query_hash", LargeBinary, primary_key=True),
    Column("rewrites", ARRAY(Text), nullable=False),
    _now("created_at"),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)

ann_indexes = Table(
    "ann_indexes",
    metadata,
    _collection_id(),
    Column("space_id", BigInteger, ForeignKey("embedding_spaces.space_id", ondelete="CASCADE"), primary_key=True),
    Column("rows", BigInteger, nullable=False),
    Column("index_bytes", BigInteger, nullable=False),
    Column("effort_10", Integer, nullable=False),
    Column("effort_100", Integer, nullable=False),
    Column("effort_200", Integer, nullable=False),
    Column("recall", REAL, nullable=False),
    Column("exact_row_us", REAL, nullable=False),
    Column("walk_row_us", REAL, nullable=False),
    _now("measured_at"),
)


def _keyed_by(name: str, *values: Column[Any]) -> Table:
    """What items can be filtered by, in the order of the index that answers: the index alone is read."""
    return Table(
        name,
        metadata,
        _collection_id(references=False),
        *values,
        ForeignKeyConstraint(
            ["collection_id", "item_id"], ["items.collection_id", "items.item_id"], ondelete="CASCADE"
        ),
        Index(None, "collection_id", "item_id"),
    )


def _attribute_values(name: str, value: Column[Any]) -> Table:
    """The values of declared attributes of one type; ``listed``: the value is an element of a list."""
    return _keyed_by(
        name,
        Column("name", Text(collation="C"), primary_key=True),
        value,
        Column("item_id", Text(collation="C"), primary_key=True),
        Column("listed", Boolean, primary_key=True),
    )


item_tags = _keyed_by(
    "item_tags",
    Column("tag", Text(collation="C"), primary_key=True),
    Column("item_id", Text(collation="C"), primary_key=True),
)

attribute_texts = _attribute_values("attribute_texts", Column("value", Text(collation="C"), primary_key=True))
attribute_numbers = _attribute_values("attribute_numbers", Column("value", Double, primary_key=True))
attribute_times = _attribute_values("attribute_times", Column("value", DateTime(timezone=True), primary_key=True))


def include_name(name: str | None, kind: str, _parents: object) -> bool:
    """What Alembic compares: not what is made while the platform runs, for spaces, pg_textsearch and months."""
    return not (kind == "table" and (name or "").startswith(_MADE_LATER))


@lru_cache(maxsize=256)
def embeddings_table(space_id: int, dimensions: int) -> Table:
    """The table of one embedding space (made by ``sql/register_embedding_space.sql``)."""
    return Table(
        f"embeddings_{space_id}",
        MetaData(),
        Column("collection_id", BigInteger, primary_key=True, autoincrement=False),
        Column("item_id", Text(collation="C"), primary_key=True),
        Column("vector", HALFVEC(dimensions), nullable=False),
        Column("content_hash", LargeBinary, nullable=False),
    )


job_runs = Table(
    "job_runs",
    metadata,
    _collection_id(),
    Column("run_id", BigInteger, Identity(always=True), primary_key=True),
    Column("job", Text, nullable=False),
    _now("started_at"),
    Column("finished_at", DateTime(timezone=True)),
    Column("outcome", Text, nullable=False, server_default=text("'running'")),
    Column("details", JSONB, nullable=False, server_default=text("'{}'")),
    Index(None, "collection_id", "job", "run_id"),
)

query_samples = Table(
    "query_samples",
    metadata,
    _collection_id(),
    Column("sample_id", BigInteger, Identity(always=True), primary_key=True),
    Column("space_id", BigInteger, ForeignKey("embedding_spaces.space_id", ondelete="CASCADE"), nullable=False),
    Column("vector", HALFVEC, nullable=False),
    Column("condition", JSONB),
    Column("result_limit", Integer, nullable=False),
    _now("sampled_at"),
)

recall_measurements = Table(
    "recall_measurements",
    metadata,
    _collection_id(),
    Column("space_id", BigInteger, ForeignKey("embedding_spaces.space_id", ondelete="CASCADE"), primary_key=True),
    Column("measured_at", DateTime(timezone=True), primary_key=True, server_default=func.now()),
    Column("bucket", Text, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("recall", REAL, nullable=False),
    Column("short_pages", Integer, nullable=False),
    Column("effort", Integer, nullable=False),
)


def _text(name: str, default: str = "''") -> Column[str]:
    return Column(name, Text, nullable=False, server_default=text(default))


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default=text("0"))


# A search as it was answered. The time is that of the identifier (UUID, version 7), to the millisecond.
retrievals = Table(
    "retrievals",
    metadata,
    _collection_id(),
    Column("retrieval_id", UUID, primary_key=True),
    Column("retrieved_at", DateTime(timezone=True), primary_key=True),
    _text("actor"),
    _text("session"),
    _text("domain"),
    Column("complexity", Double),
    Column("cluster", Integer),
    Column("query", Text, nullable=False),
    Column("vector", HALFVEC),
    Column("condition", JSONB, nullable=False),
    Column("request", JSONB, nullable=False),
    Column("profile_version", Integer, nullable=False),
    Column("model_version", Integer, nullable=False),
    Column("policy", Text, nullable=False),
    Column("statistics_at", DateTime(timezone=True), nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("eligible", Integer, nullable=False),
    Column("hits", Integer, nullable=False),
    Column("path", Text, nullable=False),
    Column("notes", ARRAY(Text), nullable=False),
    Column("timings_ms", JSONB, nullable=False),
    Column("retrieval_time_ms", Double, nullable=False),
    Column("top_score", Double),
    Column("score_spread", Double),
    Column("generation_triggered", Boolean, nullable=False),
    Column("backtrack_count", Integer, nullable=False),
    Column("pool_items", ARRAY(Text), nullable=False),
    Column("pool_signals", JSONB, nullable=False),
    Index(None, "collection_id", "retrieved_at"),
    Index(None, "collection_id", "actor", postgresql_where=text("actor <> ''")),
    postgresql_partition_by="RANGE (retrieved_at)",
)

impressions = Table(
    "impressions",
    metadata,
    _collection_id(),
    Column("retrieval_id", UUID, primary_key=True),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("retrieved_at", DateTime(timezone=True), primary_key=True),
    Column("rank", Integer, nullable=False),
    Column("score", Double, nullable=False),
    Column("signals", JSONB, nullable=False),
    Column("slot", Text, nullable=False),
    Column("propensity", Double, nullable=False),
    Column("rank_propensity", Double, nullable=False),
    Column("pulls", Double, nullable=False),
    CheckConstraint("slot IN ('exploit', 'explore', 'swap')", name="impressions_slot_check"),
    CheckConstraint("propensity > 0 AND propensity <= 1", name="impressions_propensity_check"),
    CheckConstraint("rank_propensity > 0 AND rank_propensity <= propensity", name="impressions_rank_propensity_check"),
    Index(None, "collection_id", "item_id", "retrieved_at"),
    Index(None, "collection_id", "retrieved_at"),
    postgresql_partition_by="RANGE (retrieved_at)",
)

# What was not recorded, and why.
recording_losses = Table(
    "recording_losses",
    metadata,
    _collection_id(),
    Column("day", Date, primary_key=True),
    Column("reason", Text, primary_key=True),
    _count("retrievals"),
)

# A month does not part it: a key has to be unique for ever, so that no retry counts twice.
feedback = Table(
    "feedback",
    metadata,
    _collection_id(),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("feedback_key", UUID, primary_key=True),
    Column("subject", UUID, nullable=False),
    Column("retrieval_id", UUID),
    Column("retrieved_at", DateTime(timezone=True)),
    _text("actor"),
    _text("session"),
    Column("kind", Text, nullable=False),
    Column("reward", Double, nullable=False),
    Column("weight", Double, nullable=False),
    Column("given_weight", Double, nullable=False, server_default=text("1")),
    Column("contexts", ARRAY(Text), nullable=False),
    _text("note"),
    Column("occurred_at", DateTime(timezone=True), nullable=False),
    _now("received_at"),
    Column("superseded_at", DateTime(timezone=True)),
    _text("discounted"),
    CheckConstraint("reward >= 0 AND reward <= 1", name="feedback_reward_check"),
    CheckConstraint("weight >= 0 AND weight <= 1", name="feedback_weight_check"),
    Index(None, "collection_id", "item_id", "subject", unique=True, postgresql_where=text("superseded_at IS NULL")),
    Index(None, "collection_id", "retrieval_id", postgresql_where=text("retrieval_id IS NOT NULL")),
    Index(None, "actor", "collection_id", "received_at", postgresql_where=text("actor <> ''")),
    Index(None, "received_at", postgresql_using="brin"),
)


def _statistics() -> list[Column[Any]]:
    return [
        Column("item_id", Text(collation="C"), primary_key=True),
        Column("context", Text(collation="C"), primary_key=True),
        Column("successes", Double, nullable=False),
        Column("failures", Double, nullable=False),
        _count("uses"),
        _count("raw_successes"),
        Column("last_used_at", DateTime(timezone=True)),
    ]


arms = Table("arms", metadata, _collection_id(), *_statistics(), postgresql_with={"fillfactor": "70"})

# The share of the arms of events that were removed.
arm_baselines = Table("arm_baselines", metadata, _collection_id(), *_statistics())

# How the arms of a collection decay, and which model of them is in use.
learning_states = Table(
    "learning_states",
    metadata,
    _collection_id(),
    Column("half_life_days", Double, nullable=False, server_default=text("30")),
    Column("landmark", DateTime(timezone=True), nullable=False, server_default=text("'2026-01-01 00:00:00+00'")),
    Column("daily_cap", Integer, nullable=False, server_default=text("1000")),
    Column("model_version", Integer, nullable=False, server_default=text("0")),
    Column("model_is_chosen", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("half_life_days > 0", name="learning_states_half_life_days_check"),
)

quarantines = Table(
    "quarantines",
    metadata,
    _collection_id(),
    Column("actor", Text(collation="C"), primary_key=True),
    _text("reason"),
    _now("quarantined_at"),
)

learned_models = Table(
    "learned_models",
    metadata,
    _collection_id(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("definition", JSONB, nullable=False),
    Column("metrics", JSONB, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("statistics_at", DateTime(timezone=True), nullable=False),
    Column("is_published", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
    _now("created_at"),
)

cluster_centroids = Table(
    "cluster_centroids",
    metadata,
    _collection_id(),
    Column("space_id", BigInteger, ForeignKey("embedding_spaces.space_id", ondelete="CASCADE"), primary_key=True),
    Column("cluster", Integer, primary_key=True, autoincrement=False),
    Column("centroid", HALFVEC, nullable=False),
    Column("items", BigInteger, nullable=False),
    _now("computed_at"),
)

item_clusters = Table(
    "item_clusters",
    metadata,
    _collection_id(references=False),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("cluster", Integer, nullable=False),
    ForeignKeyConstraint(["collection_id", "item_id"], ["items.collection_id", "items.item_id"], ondelete="CASCADE"),
)

# The direction of the queries that an item was rewarded for, as a model learned it.
rewarded_queries = Table(
    "rewarded_queries",
    metadata,
    _collection_id(references=False),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("vector", HALFVEC, nullable=False),
    Column("rewards", Double, nullable=False),
    ForeignKeyConstraint(
        ["collection_id", "version"], ["learned_models.collection_id", "learned_models.version"], ondelete="CASCADE"
    ),
)

# Which tenant an analyst's login sees.
analyst_logins = Table(
    "analyst_logins",
    metadata,
    Column("login", Text(collation="C"), primary_key=True),
    Column("tenant_id", BigInteger, ForeignKey("tenants.tenant_id", ondelete="CASCADE"), nullable=False),
    _now("added_at"),
)

# What a memory has beyond an item.
memories = Table(
    "memories",
    metadata,
    _collection_id(references=False),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("happened_at", DateTime(timezone=True), nullable=False),
    Column("base_relevance", Double, nullable=False, server_default=text("1")),
    _count("accesses"),
    Column("last_accessed_at", DateTime(timezone=True)),
    Column("expires_at", DateTime(timezone=True)),
    Column("superseded_by", Text(collation="C")),
    ForeignKeyConstraint(["collection_id", "item_id"], ["items.collection_id", "items.item_id"], ondelete="CASCADE"),
    CheckConstraint("base_relevance >= 0 AND base_relevance <= 1", name="memories_base_relevance_check"),
    CheckConstraint("accesses >= 0", name="memories_accesses_check"),
    Index(
        "memories_by_relevance_idx", "collection_id", text("base_relevance DESC"), text("happened_at DESC"), "item_id"
    ),
    Index(
        "memories_by_accesses_idx", "collection_id", text("accesses DESC"), text("happened_at DESC"), "item_id",
        postgresql_where=text("accesses > 0"),
    ),
    Index("memories_by_time_idx", "collection_id", text("happened_at DESC"), "item_id"),
    Index("memories_by_expiry_idx", "collection_id", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
    Index(
        "memories_by_successor_idx",
        "collection_id",
        "superseded_by",
        postgresql_where=text("superseded_by IS NOT NULL"),
    ),
    postgresql_with={"fillfactor": "80"},
)  # fmt: skip

memory_links = Table(
    "memory_links",
    metadata,
    _collection_id(references=False),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("entity_type", Text(collation="C"), primary_key=True),
    Column("entity_id", Text(collation="C"), primary_key=True),
    Column("happened_at", DateTime(timezone=True), nullable=False),
    ForeignKeyConstraint(
        ["collection_id", "item_id"], ["memories.collection_id", "memories.item_id"], ondelete="CASCADE"
    ),
    Index(
        "memory_links_by_entity_idx", "collection_id", "entity_type", "entity_id", text("happened_at DESC"), "item_id"
    ),
)
