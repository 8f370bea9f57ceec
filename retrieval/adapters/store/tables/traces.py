"""What happened: searches with their impressions, what was not recorded, and feedback."""

from __future__ import annotations

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Double,
    Index,
    Integer,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from retrieval.adapters.store.tables.columns import collection_id, count_column, metadata, now_column, text_column

# A search as it was answered. The time is that of the identifier (UUID, version 7), to the millisecond.
retrievals = Table(
    "retrievals",
    metadata,
    collection_id(),
    Column("retrieval_id", UUID, primary_key=True),
    Column("retrieved_at", DateTime(timezone=True), primary_key=True),
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
    Column("pool_items", ARRAY(Text), nullable=False),
    Column("pool_signals", JSONB, nullable=False),
    Index(None, "collection_id", "retrieved_at"),
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

impressions = Table(
    "impressions",
    metadata,
    collection_id(),
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
