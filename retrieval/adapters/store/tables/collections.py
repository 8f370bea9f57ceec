"""Tenants, their collections with what is kept about each, embedding spaces, jobs, and who comes in over HTTP."""

from __future__ import annotations

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    Date,
    DateTime,
    ForeignKey,
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


def own_key(name: str) -> Column[str]:
    """An application's own key: compared byte by byte, so that no collation can make two keys one."""
    return Column(name, Text(collation="C"), nullable=False)


def now_column(name: str) -> Column[object]:
    """A time that is now unless something else is said."""
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


def collection_id(*, references: bool = True) -> Column[int]:
    """The first part of every key. ``references``: whether it goes with its collection, and not with its item."""
    owner = [ForeignKey("collections.collection_id", ondelete="CASCADE")] if references else []
    return Column("collection_id", BigInteger, *owner, primary_key=True, autoincrement=False)


def text_column(name: str, default: str = "''") -> Column[str]:
    """A text that is never NULL."""
    return Column(name, Text, nullable=False, server_default=text(default))


def count_column(name: str) -> Column[int]:
    """A number that starts at 0."""
    return Column(name, BigInteger, nullable=False, server_default=text("0"))


tenants = Table(
    "tenants",
    metadata,
    Column("tenant_id", BigInteger, Identity(always=True), primary_key=True),
    own_key("name"),
    now_column("created_at"),
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
    now_column("created_at"),
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
    own_key("name"),
    Column("text_search_config", Text, nullable=False, server_default=text("'english'")),
    Column("space_id", BigInteger, ForeignKey("embedding_spaces.space_id")),
    Column("profile_version", Integer, nullable=False, server_default=text("1")),
    now_column("created_at"),
    Column("neighbours", JSONB),
    Column("attribute_schema", JSONB),
    text_column("index_kind", "'auto'"),
    UniqueConstraint("tenant_id", "name"),
)

profiles = Table(
    "profiles",
    metadata,
    collection_id(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("definition", JSONB, nullable=False),
    Column("note", Text, nullable=False, server_default=text("''")),
    now_column("created_at"),
)

collection_attributes = Table(
    "collection_attributes",
    metadata,
    collection_id(),
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
    now_column("created_at"),
)

query_rewrites = Table(
    "query_rewrites",
    metadata,
    Column("tenant_id", BigInteger, ForeignKey("tenants.tenant_id", ondelete="CASCADE"), primary_key=True),
    Column("model", Text(collation="C"), primary_key=True),
    Column("query_hash", LargeBinary, primary_key=True),
    Column("rewrites", ARRAY(Text), nullable=False),
    now_column("created_at"),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)

ann_indexes = Table(
    "ann_indexes",
    metadata,
    collection_id(),
    Column("space_id", BigInteger, ForeignKey("embedding_spaces.space_id", ondelete="CASCADE"), primary_key=True),
    Column("rows", BigInteger, nullable=False),
    Column("index_bytes", BigInteger, nullable=False),
    Column("effort_10", Integer, nullable=False),
    Column("effort_100", Integer, nullable=False),
    Column("effort_200", Integer, nullable=False),
    Column("recall", REAL, nullable=False),
    Column("exact_row_us", REAL, nullable=False),
    Column("walk_row_us", REAL, nullable=False),
    Column("is_quantised", Boolean, nullable=False),
    Column("common_facets", JSONB, nullable=False, server_default=text("'{}'")),
    now_column("measured_at"),
)

job_runs = Table(
    "job_runs",
    metadata,
    collection_id(),
    Column("run_id", BigInteger, Identity(always=True), primary_key=True),
    Column("job", Text, nullable=False),
    now_column("started_at"),
    Column("finished_at", DateTime(timezone=True)),
    Column("outcome", Text, nullable=False, server_default=text("'running'")),
    Column("details", JSONB, nullable=False, server_default=text("'{}'")),
    Index(None, "collection_id", "job", "run_id"),
)

query_samples = Table(
    "query_samples",
    metadata,
    collection_id(),
    Column("sample_id", BigInteger, Identity(always=True), primary_key=True),
    Column("space_id", BigInteger, ForeignKey("embedding_spaces.space_id", ondelete="CASCADE"), nullable=False),
    Column("vector", HALFVEC, nullable=False),
    Column("condition", JSONB),
    Column("result_limit", Integer, nullable=False),
    now_column("sampled_at"),
)

recall_measurements = Table(
    "recall_measurements",
    metadata,
    collection_id(),
    Column("space_id", BigInteger, ForeignKey("embedding_spaces.space_id", ondelete="CASCADE"), primary_key=True),
    Column("measured_at", DateTime(timezone=True), primary_key=True, server_default=func.now()),
    Column("bucket", Text, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("recall", REAL, nullable=False),
    Column("short_pages", Integer, nullable=False),
    Column("effort", Integer, nullable=False),
)

reembeddings = Table(
    "reembeddings",
    metadata,
    collection_id(),
    Column("former_id", BigInteger, ForeignKey("embedding_spaces.space_id"), nullable=False),
    Column("target_id", BigInteger, ForeignKey("embedding_spaces.space_id"), nullable=False),
    Column("state", Text, nullable=False),
    Column(
        "kept_id",
        BigInteger,
        Computed(
            "CASE state WHEN 'filling'::text THEN target_id WHEN 'ready'::text THEN target_id "
            "WHEN 'switched'::text THEN former_id ELSE NULL::bigint END",
            persisted=True,
        ),
    ),
    Column("is_paused", Boolean, nullable=False, server_default=text("false")),
    Column("switching", Text, nullable=False),
    Column("batch_texts", Integer, nullable=False),
    Column("tokens_a_minute", BigInteger),
    Column("tokens_a_day", BigInteger),
    Column("keep_seconds", BigInteger, nullable=False),
    Column("spent_on", Date),
    Column("spent_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("paid_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("paid_texts", BigInteger, nullable=False, server_default=text("0")),
    Column("comparison", JSONB),
    Column("note", Text, nullable=False, server_default=text("''")),
    now_column("started_at"),
    Column("switched_at", DateTime(timezone=True)),
    CheckConstraint("switching IN ('when asked', 'by itself', 'now')", name="reembeddings_switching_check"),
    CheckConstraint("state IN ('filling', 'ready', 'switched', 'removing', 'done')", name="reembeddings_state_check"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", Text(collation="C"), primary_key=True),
    Column("tenant_id", BigInteger, ForeignKey("tenants.tenant_id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("requests_per_minute", Integer),
    now_column("created_at"),
    Column("expires_at", DateTime(timezone=True)),
    Column("revoked_at", DateTime(timezone=True)),
    Column("last_used_at", DateTime(timezone=True)),
    Column("feedback_cap", Integer, nullable=False, server_default=text("1000")),
    CheckConstraint(
        "scopes <@ ARRAY['read', 'write', 'feedback', 'admin'] AND cardinality(scopes) > 0",
        name="api_keys_scopes_check",
    ),
    CheckConstraint("requests_per_minute > 0", name="api_keys_requests_per_minute_check"),
    CheckConstraint("feedback_cap > 0", name="api_keys_feedback_cap_check"),
    Index(None, "tenant_id"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant_id", BigInteger, ForeignKey("tenants.tenant_id", ondelete="CASCADE"), primary_key=True),
    Column("key_id", Text(collation="C"), primary_key=True),
    Column("idempotency_key", Text(collation="C"), primary_key=True),
    Column("attempt", UUID, nullable=False),
    Column("request_hash", LargeBinary, nullable=False),
    Column("body_hash", LargeBinary),
    Column("held_until", DateTime(timezone=True), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("status", SmallInteger),
    Column("headers", JSONB),
    Column("body", LargeBinary),
    Index(None, "expires_at"),
)
