"""What is known of each HNSW index: its search effort and its costs, as measured.

Revision: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects.postgresql import REAL

from retrieval.adapters.store.installed_sql import verbatim
from retrieval.adapters.store.protection import protection

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; an index that is there already is measured by the next job that looks at it."""
    op.create_table(
        "ann_indexes",
        sa.Column("collection_id", sa.BigInteger, nullable=False),
        sa.Column("space_id", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("index_bytes", sa.BigInteger, nullable=False),
        sa.Column("effort_10", sa.Integer, nullable=False),
        sa.Column("effort_100", sa.Integer, nullable=False),
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
    op.drop_table("ann_indexes")
