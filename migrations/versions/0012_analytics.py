"""Figures for analysts, and their logins.

Revision: 0012
Revises: 0011
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, verbatim

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

FILES = (
    "analyst_role",
    "analyst_logins",
    "wilson",
    "analytics_rated",
    "analytics_items",
    "analytics_queries",
    "analytics_exploration",
    "analytics_profiles",
)


def upgrade() -> None:
    """Make the analysts' role, what it sees, and the figures."""
    for name in FILES:
        install(name)


def downgrade() -> None:
    """Remove them, with the knowledge of which login sees which tenant."""
    install("remove_analytics")


def install(name: str) -> None:
    """Run ``sql/<name>.sql`` as this revision had it."""
    op.execute(verbatim(installed_sql(name, context.config.attributes["names"], revision)))
