"""Items, and what memories have beyond items."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pgvector.sqlalchemy import HALFVEC, SPARSEVEC
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
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
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REAL

from retrieval.adapters.store.tables.collections import (
    TERM_DIMENSIONS,
    collection_id,
    count_column,
    metadata,
    now_column,
)

items = Table(
    "items",
    metadata,
    collection_id(),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("tags", ARRAY(Text), nullable=False),
    Column("attributes", JSONB, nullable=False),
    Column("status", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("occurred_at", DateTime(timezone=True)),
    now_column("created_at"),
    now_column("updated_at"),
    Column("content_hash", LargeBinary, nullable=False),
    Column("text_hash", LargeBinary, nullable=False),
    Column(
        "facets",
        ARRAY(Uuid),
        Computed(
            "CASE WHEN status = 'archived' THEN '{}' "
            "ELSE facets_of(collection_id, attributes, tags, kind, status) END"
        ),
    ),
    # Only a filter on that very field can use these; nothing else is led to read a collection's items by them.
    Index(None, "collection_id", "occurred_at", "item_id", postgresql_where=text("occurred_at IS NOT NULL")),
    Index(None, "collection_id", "kind", "item_id", postgresql_where=text("kind <> '' AND status <> 'archived'")),
    Index(None, "collection_id", "source", "item_id", postgresql_where=text("source <> '' AND status <> 'archived'")),
    Index(None, "facets", postgresql_using="gin"),
    Index(
        "items_by_arrival_idx", "collection_id", "created_at", text("item_id DESC"),
        postgresql_where=text("status <> 'archived'"),
    ),
    postgresql_with={"fillfactor": "90"},
)  # fmt: skip

item_terms = Table(
    "item_terms",
    metadata,
    collection_id(references=False),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("lexemes", ARRAY(Integer), nullable=False),
    Column("frequencies", ARRAY(SmallInteger), nullable=False),
    Column("length", Integer, nullable=False),
    Column("weights", SPARSEVEC(TERM_DIMENSIONS), nullable=False),
    Column("text_hash", LargeBinary),
    ForeignKeyConstraint(["collection_id", "item_id"], ["items.collection_id", "items.item_id"], ondelete="CASCADE"),
    Index(None, "lexemes", postgresql_using="gin"),
    postgresql_with={"toast_tuple_target": "8160"},
)

term_statistics = Table(
    "term_statistics",
    metadata,
    collection_id(),
    Column("lexeme", Integer, primary_key=True, autoincrement=False),
    Column("document_frequency", Integer, nullable=False),
    Column("term", Text(collation="C")),
    Index(None, "collection_id", "term"),
    postgresql_with={"fillfactor": "70"},
)

collection_statistics = Table(
    "collection_statistics",
    metadata,
    collection_id(),
    Column("documents", BigInteger, nullable=False),
    Column("total_length", BigInteger, nullable=False),
    Column("weighed_length", REAL),
    Column("weighing_after", Text(collation="C")),
    Column("windowing_after", Text(collation="C")),
    postgresql_with={"fillfactor": "50"},
)

statistics_changes = Table(
    "statistics_changes",
    metadata,
    collection_id(),
    Column("change_id", BigInteger, Identity(always=True), primary_key=True),
    Column("items", Integer, nullable=False),
    Column("documents", BigInteger, nullable=False),
    Column("total_length", BigInteger, nullable=False),
    Column("lexemes", ARRAY(Integer), nullable=False),
    Column("differences", ARRAY(Integer), nullable=False),
    Column("terms", ARRAY(Text), nullable=False),
    postgresql_with={"toast_tuple_target": "8160"},
)

# Of collections whose items are indexed with their neighbours alone.
item_places = Table(
    "item_places",
    metadata,
    collection_id(references=False),
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
    collection_id(references=False),
    Column("item_id", Text(collation="C"), primary_key=True),
    Column("space_id", BigInteger, ForeignKey("embedding_spaces.space_id", ondelete="CASCADE"), primary_key=True),
    Column("vector", HALFVEC, nullable=False),
    Column("content_hash", LargeBinary, nullable=False),
    ForeignKeyConstraint(["collection_id", "item_id"], ["items.collection_id", "items.item_id"], ondelete="CASCADE"),
)


def _keyed_by(name: str, *values: Column[Any]) -> Table:
    """A table of values that items are filtered by, in the order of the answering index, which alone is read."""
    return Table(
        name,
        metadata,
        collection_id(references=False),
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


@lru_cache(maxsize=256)
def embeddings_table(space_id: int, dimensions: int) -> Table:
    """The table of one embedding space (made by ``sql/search/vectors.sql``)."""
    return Table(
        f"embeddings_{space_id}",
        MetaData(),
        Column("collection_id", BigInteger, primary_key=True, autoincrement=False),
        Column("item_id", Text(collation="C"), primary_key=True),
        Column("vector", HALFVEC(dimensions), nullable=False),
        Column("content_hash", LargeBinary, nullable=False),
        Column("facets", ARRAY(Uuid), nullable=False),
    )


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
