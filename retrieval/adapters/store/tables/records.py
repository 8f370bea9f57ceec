"""The tables of records and learning: searches, feedback, arms, models."""

from __future__ import annotations

from typing import Any

from pgvector.sqlalchemy import HALFVEC
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
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REAL, UUID

from retrieval.adapters.store.tables.collections import collection_id, count_column, metadata, now_column, text_column

# A search as it was answered. The time is that of the identifier (UUID, version 7), to the millisecond. The hits
# that it showed are rows of the view impressions.
retrievals = Table(
    "retrievals",
    metadata,
    collection_id(),
    Column("retrieved_at", DateTime(timezone=True), primary_key=True),
    Column("retrieval_id", UUID, primary_key=True),
    text_column("actor"),
    text_column("session"),
    text_column("domain"),
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
    Column("legs", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("bests", ARRAY(Double), nullable=False, server_default=text("'{}'")),
    Column("brought", ARRAY(Integer), nullable=False, server_default=text("'{}'")),
    Column("pool_items", ARRAY(Text), nullable=False),
    Column("pool_scores", ARRAY(REAL)),
    Column("pool_scores_exact", ARRAY(Double)),
    Column("pool_ranks", ARRAY(SmallInteger)),
    Column("pool_likeness", ARRAY(SmallInteger)),
    Column("measures", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("pool_values", ARRAY(Double)),
    Column("shown_items", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("shown_scores", ARRAY(Double), nullable=False, server_default=text("'{}'")),
    Column("shown_slots", ARRAY(Text)),
    Column("propensities", ARRAY(Double)),
    Column("rank_propensities", ARRAY(Double)),
    Column("pulls", ARRAY(Double)),
    Column("shown_signals", JSONB),
    CheckConstraint(
        "cardinality(shown_scores) = cardinality(shown_items) "
        "AND coalesce(cardinality(shown_slots), cardinality(shown_items)) = cardinality(shown_items) "
        "AND coalesce(cardinality(propensities), cardinality(shown_items)) = cardinality(shown_items) "
        "AND coalesce(cardinality(rank_propensities), cardinality(shown_items)) = cardinality(shown_items) "
        "AND coalesce(cardinality(pulls), cardinality(shown_items)) = cardinality(shown_items)",
        name="retrievals_shown_check",
    ),
    CheckConstraint("shown_slots <@ ARRAY['exploit', 'explore', 'swap']", name="retrievals_slots_check"),
    CheckConstraint("0 < ALL (propensities) AND 1 >= ALL (propensities)", name="retrievals_propensities_check"),
    CheckConstraint(
        "0 < ALL (rank_propensities) AND 1 >= ALL (rank_propensities)", name="retrievals_rank_propensities_check"
    ),
    Index(None, "collection_id", "actor", postgresql_where=text("actor <> ''")),
    Index(
        "retrievals_by_session_idx",
        "collection_id",
        "session",
        text("retrieved_at DESC"),
        text("retrieval_id DESC"),
        postgresql_where=text("session <> ''"),
    ),
    postgresql_partition_by="RANGE (retrieved_at)",
)

# What was not recorded, and why.
recording_losses = Table(
    "recording_losses",
    metadata,
    collection_id(),
    Column("day", Date, primary_key=True),
    Column("reason", Text, primary_key=True),
    count_column("retrievals"),
)

# A month does not part it: a key has to be unique for ever, so that no retry counts twice.
feedback = Table(
    "feedback",
    metadata,
    collection_id(),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("feedback_key", UUID, primary_key=True),
    Column("subject", UUID, nullable=False),
    Column("retrieval_id", UUID),
    Column("retrieved_at", DateTime(timezone=True)),
    text_column("actor"),
    text_column("session"),
    Column("kind", Text, nullable=False),
    Column("reward", Double, nullable=False),
    Column("weight", Double, nullable=False),
    Column("given_weight", Double, nullable=False, server_default=text("1")),
    Column("contexts", ARRAY(Text), nullable=False),
    text_column("note"),
    Column("occurred_at", DateTime(timezone=True), nullable=False),
    now_column("received_at"),
    Column("superseded_at", DateTime(timezone=True)),
    text_column("discounted"),
    Column("key_id", Text(collation="C"), nullable=False, server_default=text("''")),
    CheckConstraint("reward >= 0 AND reward <= 1", name="feedback_reward_check"),
    CheckConstraint("weight >= 0 AND weight <= 1", name="feedback_weight_check"),
    Index(None, "collection_id", "item_id", "subject", unique=True, postgresql_where=text("superseded_at IS NULL")),
    Index(None, "collection_id", "retrieval_id", postgresql_where=text("retrieval_id IS NOT NULL")),
    Index(None, "actor", "collection_id", "received_at", postgresql_where=text("actor <> ''")),
    Index(None, "key_id", "collection_id", "item_id", "received_at", postgresql_where=text("key_id <> ''")),
    Index(None, "received_at", postgresql_using="brin"),
)


def _statistics() -> list[Column[Any]]:
    return [
        Column("item_id", Text(collation="C"), primary_key=True),
        Column("context", Text(collation="C"), primary_key=True),
        Column("successes", Double, nullable=False),
        Column("failures", Double, nullable=False),
        count_column("uses"),
        count_column("raw_successes"),
        Column("last_used_at", DateTime(timezone=True)),
    ]


arms = Table(
    "arms",
    metadata,
    collection_id(),
    *_statistics(),
    # Of nothing that a verdict changes: an index of the counts would end the HOT updates that the fillfactor is for.
    Index("arms_anywhere_idx", "collection_id", "item_id", postgresql_where=text("context = ''")),
    postgresql_with={"fillfactor": "70"},
)

# The share of the arms of events that were removed.
arm_baselines = Table("arm_baselines", metadata, collection_id(), *_statistics())

# How the arms of a collection decay, and which model of them is in use.
learning_states = Table(
    "learning_states",
    metadata,
    collection_id(),
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
    collection_id(),
    Column("actor", Text(collation="C"), primary_key=True),
    text_column("reason"),
    now_column("quarantined_at"),
)

learned_models = Table(
    "learned_models",
    metadata,
    collection_id(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("definition", JSONB, nullable=False),
    Column("metrics", JSONB, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("statistics_at", DateTime(timezone=True), nullable=False),
    Column("is_published", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
    now_column("created_at"),
)

cluster_centroids = Table(
    "cluster_centroids",
    metadata,
    collection_id(),
    Column("space_id", BigInteger, ForeignKey("embedding_spaces.space_id", ondelete="CASCADE"), primary_key=True),
    Column("cluster", Integer, primary_key=True, autoincrement=False),
    Column("centroid", HALFVEC, nullable=False),
    Column("items", BigInteger, nullable=False),
    now_column("computed_at"),
)

item_clusters = Table(
    "item_clusters",
    metadata,
    collection_id(references=False),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("cluster", Integer, nullable=False),
    ForeignKeyConstraint(["collection_id", "item_id"], ["items.collection_id", "items.item_id"], ondelete="CASCADE"),
)

# The direction of the queries that an item was rewarded for, as a model learned it.
rewarded_queries = Table(
    "rewarded_queries",
    metadata,
    collection_id(references=False),
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
    now_column("added_at"),
)
