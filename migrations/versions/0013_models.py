"""What models know of the queries that items were rewarded for.

Revision: 0013
Revises: 0012
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, verbatim
from retrieval.adapters.store.protection import protection

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    names = context.config.attributes["names"]
    op.execute(verbatim(installed_sql("rewarded_queries", names, revision)))
    for statement in protection("rewarded_queries", names):
        op.execute(verbatim(statement))


def downgrade() -> None:
    """Remove it."""
    op.drop_table("rewarded_queries")
