"""What is known of each HNSW index, as measured; and the items by event time without those that have none.

While the statistics do not know a collection yet, the planner took the whole index by time for as good a way to one
item as the key is.

Revision: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects.postgresql import REAL

from retrieval.adapters.store.concurrent_index import build_statement, drop_invalid, drop_statement
from retrieval.adapters.store.installed_sql import verbatim
from retrieval.adapters.store.protection import protection

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


BY_TIME = "items_collection_id_occurred_at_item_id_idx"
FORMER_BY_TIME = "items_collection_id_occurred_at_idx"


def upgrade() -> None:
    """Make the table; an index that is there already is measured by the next job that looks at it."""
    # First, for it can be done again: what follows is one transaction.
    replace_index(FORMER_BY_TIME, BY_TIME, "(collection_id, occurred_at, item_id) WHERE occurred_at IS NOT NULL")
    op.create_table(
        "ann_indexes",
        sa.Column("collection_id", sa.BigInteger, nullable=False),
        sa.Column("space_id", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("index_bytes", sa.BigInteger, nullable=False),
        sa.Column("effort_10", sa.Integer, nullable=False),
        sa.Column("effort_100", sa.Integer, nullable=False),
        sa.Column("effort_200", sa.Integer, nullable=False),
        sa.Column("recall", REAL, nullable=False),
        sa.Column("exact_row_us", REAL, nullable=False),
        sa.Column("walk_row_us", REAL, nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("collection_id", "space_id", name="ann_indexes_pkey"),
        sa.ForeignKeyConstraint(
            ["collection_id"],
            ["collections.collection_id"],
            ondelete="CASCADE",
            name="ann_indexes_collection_id_fkey",
        ),
        sa.ForeignKeyConstraint(
            ["space_id"], ["embedding_spaces.space_id"], ondelete="CASCADE", name="ann_indexes_space_id_fkey"
        ),
    )
    for statement in protection("ann_indexes", context.config.attributes["names"]):
        op.execute(verbatim(statement))


def downgrade() -> None:
    """Remove the table; searches then go by what is usual."""
    replace_index(BY_TIME, FORMER_BY_TIME, "(collection_id, occurred_at)")
    op.drop_table("ann_indexes")


def replace_index(former: str, name: str, definition: str) -> None:
    """Build the one, then drop the other, both concurrently, because a database may hold items already."""
    schema = context.config.attributes["names"].schema
    with op.get_context().autocommit_block():
        if not context.is_offline_mode():
            drop_invalid(op.get_bind(), schema, name)
        op.execute(verbatim(build_statement(name, schema, "items", definition)))
        op.execute(verbatim(drop_statement(former, schema)))
