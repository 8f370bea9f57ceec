"""${message}

A revision takes locks: keep it short, build indexes on filled tables concurrently (``context.autocommit_block``),
and never rewrite a large table. Lock and statement timeouts are set in ``env.py``.

Revision: ${up_revision}
Revises: ${down_revision | comma,n}
"""

from __future__ import annotations

from alembic import op
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    ${downgrades if downgrades else "pass"}
