"""Recorded searches, feedback, and what is learned from it.

Revision: 0008
Revises: 0007
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, verbatim
from retrieval.adapters.store.protection import protection

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

TABLES = (
    "retrievals",
    "impressions",
    "recording_losses",
    "feedback",
    "arms",
    "arm_baselines",
    "learning_states",
    "quarantines",
    "learned_models",
    "cluster_centroids",
    "item_clusters",
)


def upgrade() -> None:
    """Make the tables."""
    names = context.config.attributes["names"]
    op.execute(verbatim(installed_sql("learning_tables", names, revision)))
    for table in TABLES:
        for statement in protection(table, names):
            op.execute(verbatim(statement))


def downgrade() -> None:
    """Remove them, with all that was learned."""
    for table in reversed(TABLES):
        op.drop_table(table)
