"""Off-policy estimates: functions that say what another policy would have earned on recorded searches.

Revision: 0011
Revises: 0010
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, verbatim

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

FUNCTIONS = (
    "off_policy_terms",
    "off_policy_residuals",
    "off_policy_comparison",
    "off_policy_weighing",
    "interleaved_results",
)


def upgrade() -> None:
    """Make the functions, each after those that it calls."""
    for name in FUNCTIONS:
        op.execute(verbatim(installed_sql(name, context.config.attributes["names"], revision)))


def downgrade() -> None:
    """Remove them."""
    for name in reversed(FUNCTIONS):
        op.execute(f"DROP FUNCTION {name}")
