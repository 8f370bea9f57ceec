"""What memories have beyond items."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, DateTime, Double, ForeignKeyConstraint, Index, Table, Text, text

from retrieval.adapters.store.tables.columns import collection_id, count_column, metadata

# What a memory has beyond an item.
memories = Table(
    "memories",
    metadata,
    collection_id(references=False),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("happened_at", DateTime(timezone=True), nullable=False),
    Column("base_relevance", Double, nullable=False, server_default=text("1")),
    count_column("accesses"),
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
    collection_id(references=False),
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
