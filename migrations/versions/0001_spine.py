"""The spine: tenants, collections, profiles, items, their terms and statistics, embedding spaces and their cache.

Revision: 0001
Revises: nothing
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op
from pgvector.sqlalchemy import HALFVEC, SPARSEVEC
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REAL

from retrieval.adapters.store.installed_sql import installed_sql, verbatim

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

FUNCTIONS = (
    "ensure_tenant",
    "lexeme_id",
    "analyze_text",
    "bm25_weights",
    "index_terms",
    "refresh_weights",
    "query_terms",
    "lexical_query",
    "lexical_search",
    "register_embedding_space",
)


def upgrade() -> None:
    """Make roles, tables, functions, policies and grants."""
    install("roles")
    install("current_tenant")
    make_owners()
    make_items()
    make_lexical_index()
    make_embeddings()
    for name in FUNCTIONS:
        install(name)
    install("policies")
    install("grants")


def downgrade() -> None:
    """Remove everything, with what is in it; the roles too, unless another database of the server uses them."""
    install("remove_spine")


def install(name: str) -> None:
    """Run ``sql/<name>.sql`` as this revision had it."""
    op.execute(verbatim(installed_sql(name, context.config.attributes["names"], revision)))


def key(name: str, **options: object) -> sa.Column[str]:
    """An application's own key, compared byte by byte."""
    return sa.Column(name, sa.Text(collation="C"), nullable=False, **options)  # type: ignore[arg-type]


def now(name: str) -> sa.Column[object]:
    """A time that defaults to the transaction's."""
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())


def collection_id() -> sa.Column[int]:
    """The collection that a row belongs to."""
    return sa.Column("collection_id", sa.BigInteger, nullable=False)


def belongs_to_collection(table: str) -> sa.ForeignKeyConstraint:
    """A row goes with its collection."""
    return sa.ForeignKeyConstraint(
        ["collection_id"],
        ["collections.collection_id"],
        ondelete="CASCADE",
        name=f"{table}_collection_id_fkey",
    )


def make_owners() -> None:
    """Tenants, embedding spaces, collections, profiles."""
    op.create_table(
        "tenants",
        sa.Column("tenant_id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        key("name"),
        now("created_at"),
        sa.PrimaryKeyConstraint("tenant_id", name="tenants_pkey"),
        sa.UniqueConstraint("name", name="tenants_name_key"),
    )
    identity = ("provider", "model", "revision", "dimensions", "distance", "document_prefix", "query_prefix")
    op.create_table(
        "embedding_spaces",
        sa.Column("space_id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        *(sa.Column(name, sa.Integer if name == "dimensions" else sa.Text, nullable=False) for name in identity),
        now("created_at"),
        sa.PrimaryKeyConstraint("space_id", name="embedding_spaces_pkey"),
        sa.UniqueConstraint(*identity, name="embedding_spaces_identity_key"),
    )
    op.create_table(
        "collections",
        sa.Column("collection_id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("tenant_id", sa.BigInteger, nullable=False),
        key("name"),
        sa.Column("text_search_config", sa.Text, nullable=False, server_default=sa.text("'english'")),
        sa.Column("space_id", sa.BigInteger),
        sa.Column("profile_version", sa.Integer, nullable=False, server_default=sa.text("1")),
        now("created_at"),
        sa.PrimaryKeyConstraint("collection_id", name="collections_pkey"),
        sa.UniqueConstraint("tenant_id", "name", name="collections_tenant_id_name_key"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name="collections_tenant_id_fkey"),
        sa.ForeignKeyConstraint(["space_id"], ["embedding_spaces.space_id"], name="collections_space_id_fkey"),
    )
    op.create_table(
        "profiles",
        collection_id(),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("definition", JSONB, nullable=False),
        sa.Column("note", sa.Text, nullable=False, server_default=sa.text("''")),
        now("created_at"),
        sa.PrimaryKeyConstraint("collection_id", "version", name="profiles_pkey"),
        belongs_to_collection("profiles"),
    )


def make_items() -> None:
    """The items, and the attributes that a collection's items have."""
    op.create_table(
        "items",
        collection_id(),
        key("item_id"),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("kind", "title", "body")),
        sa.Column("tags", ARRAY(sa.Text), nullable=False),
        sa.Column("attributes", JSONB, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("status", "source")),
        sa.Column("occurred_at", sa.DateTime(timezone=True)),
        now("created_at"),
        now("updated_at"),
        sa.Column("content_hash", sa.LargeBinary, nullable=False),
        sa.Column("text_hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("collection_id", "item_id", name="items_pkey"),
        belongs_to_collection("items"),
        postgresql_with={"fillfactor": "90"},
    )
    op.create_table(
        "collection_attributes",
        collection_id(),
        key("name"),
        sa.Column("types", ARRAY(sa.Text), nullable=False),
        sa.PrimaryKeyConstraint("collection_id", "name", name="collection_attributes_pkey"),
        belongs_to_collection("collection_attributes"),
    )


def make_lexical_index() -> None:
    """The lexical index and its statistics."""
    op.create_table(
        "item_terms",
        collection_id(),
        key("item_id"),
        sa.Column("lexemes", ARRAY(sa.Integer), nullable=False),
        sa.Column("frequencies", ARRAY(sa.SmallInteger), nullable=False),
        sa.Column("length", sa.Integer, nullable=False),
        sa.Column("weights", SPARSEVEC(1_000_000_000), nullable=False),
        sa.PrimaryKeyConstraint("collection_id", "item_id", name="item_terms_pkey"),
        sa.ForeignKeyConstraint(
            ["collection_id", "item_id"],
            ["items.collection_id", "items.item_id"],
            ondelete="CASCADE",
            name="item_terms_collection_id_item_id_fkey",
        ),
        postgresql_with={"toast_tuple_target": "8160"},
    )
    op.create_index(
        "item_terms_lexemes_idx",
        "item_terms",
        ["lexemes"],
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
    )
    op.create_table(
        "term_statistics",
        collection_id(),
        sa.Column("lexeme", sa.Integer, nullable=False),
        sa.Column("document_frequency", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("collection_id", "lexeme", name="term_statistics_pkey"),
        belongs_to_collection("term_statistics"),
        postgresql_with={"fillfactor": "70"},
    )
    op.create_table(
        "collection_statistics",
        collection_id(),
        sa.Column("documents", sa.BigInteger, nullable=False),
        sa.Column("total_length", sa.BigInteger, nullable=False),
        sa.Column("weighed_length", REAL),
        sa.Column("weighing_after", sa.Text(collation="C")),
        sa.PrimaryKeyConstraint("collection_id", name="collection_statistics_pkey"),
        belongs_to_collection("collection_statistics"),
        postgresql_with={"fillfactor": "50"},
    )


def make_embeddings() -> None:
    """The cache; each space's own table is made when the space is registered."""
    op.create_table(
        "embedding_cache",
        sa.Column("tenant_id", sa.BigInteger, nullable=False),
        sa.Column("space_id", sa.BigInteger, nullable=False),
        sa.Column("text_hash", sa.LargeBinary, nullable=False),
        sa.Column("vector", HALFVEC, nullable=False),
        now("created_at"),
        sa.PrimaryKeyConstraint("tenant_id", "space_id", "text_hash", name="embedding_cache_pkey"),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.tenant_id"], ondelete="CASCADE", name="embedding_cache_tenant_id_fkey"
        ),
        sa.ForeignKeyConstraint(
            ["space_id"],
            ["embedding_spaces.space_id"],
            ondelete="CASCADE",
            name="embedding_cache_space_id_fkey",
        ),
    )
