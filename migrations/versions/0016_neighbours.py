"""Items in a sequence are indexed together with their neighbours.

Revision: 0016
Revises: 0015
"""

from __future__ import annotations

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Install it."""


def downgrade() -> None:
    """Remove it."""
