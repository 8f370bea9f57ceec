"""Rewritten queries.

Revision: 0015
Revises: 0014
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, verbatim

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.execute(verbatim(installed_sql("query_rewrites", context.config.attributes["names"], revision)))


def downgrade() -> None:
    """Remove it."""
    op.drop_table("query_rewrites")
