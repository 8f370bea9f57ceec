"""Feedback and the statistics that follow from it.

Revision: 0010
Revises: 0009
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, verbatim

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

FUNCTIONS = {
    "context_buckets": "text, double precision, integer",
    "decay_weight": "timestamptz, timestamptz, double precision",
    "feedback_lock": "",
    "learning_state": "bigint",
    "recount_arms": "bigint, text[], double precision",
    "record_plain_event": "jsonb, timestamptz",
    "record_feedback": "jsonb, timestamptz, timestamptz, boolean",
    "quarantine_actor": "text, text, boolean",
    "set_decay": "bigint, double precision, timestamptz, timestamptz",
    "retire_feedback": "bigint, text[], timestamptz",
}
"""In the order in which they need one another, with the types of their arguments."""


def upgrade() -> None:
    """Install the functions that write feedback and keep its arms."""
    names = context.config.attributes["names"]
    for name in FUNCTIONS:
        op.execute(verbatim(installed_sql(name, names, revision)))


def downgrade() -> None:
    """Remove them."""
    for name, arguments in reversed(FUNCTIONS.items()):
        op.execute(verbatim(f"DROP FUNCTION {name}({arguments})"))
    op.execute(verbatim(installed_sql("remove_feedback", context.config.attributes["names"], revision)))
