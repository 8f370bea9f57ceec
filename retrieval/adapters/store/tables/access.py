"""Who comes in over HTTP, and which of their writes were answered."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from retrieval.adapters.store.tables.columns import metadata, now_column

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
