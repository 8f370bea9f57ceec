"""Recorded searches: months, retention, pseudonyms.

Revision: 0009
Revises: 0008
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, verbatim

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let months be made and dropped."""
    install("months")


def downgrade() -> None:
    """Keep the months that there are, and make no more."""
    install("remove_months")


def install(name: str) -> None:
    """Run ``sql/<name>.sql`` as this revision had it."""
    op.execute(verbatim(installed_sql(name, context.config.attributes["names"], revision)))
