"""What the applications that learn need: ratings, tags, and what a session was started with.

Revision: 0017
Revises: 0016
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, verbatim

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

INSTALLED: tuple[str, ...] = ("session_index", "query_log")
"""New functions and indexes, each after those that it needs."""

REMOVED: tuple[str, ...] = ("remove_session_index", "remove_query_log")
"""What takes back the new indexes and views."""

FORMER: tuple[tuple[str, str], ...] = ()
"""Functions that are changed, and the revision that installed them before."""


def upgrade() -> None:
    """Install them."""
    for name in INSTALLED:
        install(name)


def downgrade() -> None:
    """Bring the former functions back, and remove what is new."""
    for name, at in FORMER:
        install(name, at)
    for name in REMOVED:
        install(name)


def install(name: str, at: str = revision) -> None:
    """Run ``sql/<name>.sql`` as a revision had it."""
    op.execute(verbatim(installed_sql(name, context.config.attributes["names"], at)))
