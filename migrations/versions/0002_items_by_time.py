"""Items by event time, for filters on it; built concurrently, because a database may hold items already.

Revision: 0002
Revises: 0001
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.concurrent_index import build_statement, drop_invalid
from retrieval.adapters.store.installed_sql import verbatim

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NAME = "items_collection_id_occurred_at_idx"


def upgrade() -> None:
    """Build the index outside a transaction; what a failed build left is removed first."""
    schema = context.config.attributes["names"].schema
    with op.get_context().autocommit_block():
        if not context.is_offline_mode():
            drop_invalid(op.get_bind(), schema, NAME)
        op.execute(verbatim(build_statement(NAME, schema, "items", "(collection_id, occurred_at)")))


def downgrade() -> None:
    """Remove the index."""
    op.drop_index(NAME, "items")
