"""Attributes that a collection declares as filterable, tags, kind and source, under indexes of their own.

Revision: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op

from retrieval.adapters.store.concurrent_index import build_statement, drop_invalid
from retrieval.adapters.store.installed_sql import installed_sql, verbatim
from retrieval.adapters.store.protection import protection

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

FIELDS = ("kind", "source")

FUNCTIONS = ("attribute_time", "index_attributes")

VALUES: dict[str, sa.types.TypeEngine[object]] = {
    "attribute_texts": sa.Text(collation="C"),
    "attribute_numbers": sa.Double(),
    "attribute_times": sa.DateTime(timezone=True),
}


def upgrade() -> None:
    """Make the tables, take the tags in, then force the policies; nothing is declared yet."""
    # First, for it can be done again: what follows is one transaction.
    build_indexes()
    op.add_column("collection_attributes", sa.Column("filterable", sa.Text))
    make_table("item_tags", key("tag"), key("item_id"))
    for name, kind in VALUES.items():
        value = sa.Column("value", kind, nullable=False)
        make_table(name, key("name"), value, key("item_id"), sa.Column("listed", sa.Boolean, nullable=False))
    op.execute(
        "INSERT INTO item_tags (collection_id, tag, item_id) SELECT DISTINCT collection_id, tag, item_id "
        "FROM items, unnest(tags) AS tag WHERE status <> 'archived'"
    )
    names = context.config.attributes["names"]
    for table in ("item_tags", *VALUES):
        for statement in protection(table, names):
            op.execute(verbatim(statement))
    for function in FUNCTIONS:
        op.execute(verbatim(installed_sql(function, names, revision)))


def build_indexes() -> None:
    """The items by kind and by source, built concurrently, because a database may hold items already."""
    schema = context.config.attributes["names"].schema
    with op.get_context().autocommit_block():
        for field in FIELDS:
            if not context.is_offline_mode():
                drop_invalid(op.get_bind(), schema, index_name(field))
            definition = f"(collection_id, {field}, item_id) WHERE {field} <> '' AND status <> 'archived'"
            op.execute(verbatim(build_statement(index_name(field), schema, "items", definition)))


def index_name(field: str) -> str:
    """The name of the index on a field of the items."""
    return f"items_collection_id_{field}_item_id_idx"


def downgrade() -> None:
    """Remove the tables, functions and indexes; the items keep their tags and attributes."""
    op.execute("DROP FUNCTION index_attributes(bigint, text[]), attribute_time(text)")
    for table in (*VALUES, "item_tags"):
        op.drop_table(table)
    op.drop_column("collection_attributes", "filterable")
    for field in FIELDS:
        op.drop_index(index_name(field), "items")


def key(name: str) -> sa.Column[str]:
    """A text that is compared byte by byte."""
    return sa.Column(name, sa.Text(collation="C"), nullable=False)


def make_table(name: str, *columns: sa.Column[object]) -> None:
    """A table whose primary key is all of its columns in order, and which follows the items."""
    op.create_table(
        name,
        sa.Column("collection_id", sa.BigInteger, nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("collection_id", *(column.name for column in columns), name=f"{name}_pkey"),
        sa.ForeignKeyConstraint(
            ["collection_id", "item_id"],
            ["items.collection_id", "items.item_id"],
            ondelete="CASCADE",
            name=f"{name}_collection_id_item_id_fkey",
        ),
    )
    op.create_index(f"{name}_collection_id_item_id_idx", name, ["collection_id", "item_id"])
