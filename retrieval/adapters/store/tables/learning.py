"""What was learned from feedback, and who may read the figures."""

from __future__ import annotations

from typing import Any

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from retrieval.adapters.store.tables.columns import collection_id, count_column, metadata, now_column, text_column


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
