"""Rewritten queries.

Revision: 0015
Revises: 0014
"""

from __future__ import annotations

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""


def downgrade() -> None:
    """Remove it."""
