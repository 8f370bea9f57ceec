"""What an API key's feedback counts, and what an embedding space may be.

Revision: 0019
Revises: 0018
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, verbatim

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

CHANGED = (
    ("register_embedding_space", "0001"),
    ("record_plain_event", "0010"),
    ("record_feedback", "0010"),
    ("find_api_key", "0018"),
)
"""Functions that are replaced, and the revision that installed the former ones."""

BY_KEY = "feedback_key_id_collection_id_item_id_received_at_idx"


def upgrade() -> None:
    """Give keys a cap and events the key that they came by, and replace the functions."""
    # A large installation takes longer than a statement may elsewhere.
    op.execute("SET LOCAL statement_timeout = 0")
    op.add_column("api_keys", sa.Column("feedback_cap", sa.Integer, nullable=False, server_default=sa.text("1000")))
    op.create_check_constraint("api_keys_feedback_cap_check", "api_keys", "feedback_cap > 0")
    op.add_column("feedback", sa.Column("key_id", sa.Text(collation="C"), nullable=False, server_default=sa.text("''")))
    columns = ["key_id", "collection_id", "item_id", "received_at"]
    op.create_index(BY_KEY, "feedback", columns, postgresql_where=sa.text("key_id <> ''"))
    make_way()
    for name, _ in CHANGED:
        install(name, revision)


def downgrade() -> None:
    """Bring the former functions back, and drop the columns."""
    make_way()
    for name, at in CHANGED:
        install(name, at)
    op.drop_index(BY_KEY, "feedback")
    op.drop_column("feedback", "key_id")
    op.drop_column("api_keys", "feedback_cap")


def make_way() -> None:
    """Remove what cannot be replaced in place: a function that gives other columns, policies that are made anew."""
    op.execute(verbatim("DROP FUNCTION find_api_key(text)"))
    install("remove_feedback", revision)


def install(name: str, at: str) -> None:
    """Run ``sql/<name>.sql`` as a revision had it."""
    op.execute(verbatim(installed_sql(name, context.config.attributes["names"], at)))
