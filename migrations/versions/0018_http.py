"""What serving over HTTP needs: keys of tenants, and writes that were answered already.

Revision: 0018
Revises: 0017
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, verbatim

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

INSTALLED: tuple[str, ...] = ("api_keys", "find_api_key", "idempotency_keys")
"""What is new, each after those that it needs."""

REMOVING: tuple[str, ...] = ("remove_api_keys",)
"""What takes it back."""


def upgrade() -> None:
    """Make the tables and functions."""
    install(INSTALLED)


def downgrade() -> None:
    """Remove them."""
    install(REMOVING)


def install(names: tuple[str, ...]) -> None:
    """Run each ``sql/<name>.sql`` as this revision had it."""
    for name in names:
        op.execute(verbatim(installed_sql(name, context.config.attributes["names"], revision)))
