"""BM25 by the extension pg_textsearch, where it is installed; nothing here needs it.

Revision: 0007
Revises: 0006
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, verbatim

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the functions, and the triggers on items; each large collection's table and index are made by a job."""
    install("textsearch_index")
    install("textsearch_search")
    install("lexical_search")


def downgrade() -> None:
    """Remove them, with the tables and indexes made since."""
    install("lexical_search", "0004")
    install("remove_textsearch")


def install(name: str, at: str = revision) -> None:
    """Run ``sql/<name>.sql`` as a revision had it."""
    op.execute(verbatim(installed_sql(name, context.config.attributes["names"], at)))
