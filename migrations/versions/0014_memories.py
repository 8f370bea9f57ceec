"""Memories: what they have beyond an item.

Revision: 0014
Revises: 0013
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, verbatim
from retrieval.adapters.store.protection import protection

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    names = context.config.attributes["names"]
    op.execute(verbatim(installed_sql("memory_tables", names, revision)))
    for table in ("memories", "memory_links"):
        for statement in protection(table, names):
            op.execute(verbatim(statement))
    for function in ("forget_items", "missing_items"):
        op.execute(verbatim(installed_sql(function, names, revision)))


def downgrade() -> None:
    """Remove them; the items stay."""
    op.execute("DROP FUNCTION missing_items(bigint[], text[])")
    op.execute("DROP FUNCTION forget_items(bigint, text[], text[])")
    op.execute("DROP FUNCTION renamed_texts(jsonb, text[], text[])")
    op.execute("DROP FUNCTION renamed_effects(jsonb, text[], text[])")
    op.drop_table("memory_links")
    op.drop_table("memories")
