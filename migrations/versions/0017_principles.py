"""What the applications that learn need: ratings, tags, and what a session was started with.

Revision: 0017
Revises: 0016
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.concurrent_index import build_statement, drop_invalid
from retrieval.adapters.store.installed_sql import installed_sql, verbatim

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

INSTALLED: tuple[str, ...] = ("session_index", "query_log")
"""New functions and indexes, each after those that it needs."""

REMOVED: tuple[str, ...] = ("remove_session_index", "remove_query_log")
"""What takes back the new indexes and views."""

ORDERS = (
    ("items_by_arrival_idx", "items", "(collection_id, created_at DESC, item_id) WHERE status <> 'archived'"),
    ("arms_anywhere_idx", "arms", "(collection_id, item_id) WHERE context = ''"),
)
"""Indexes on tables that may be large already: name, table, definition. The latest items, those with verdicts."""

FORMER: tuple[tuple[str, str], ...] = ()
"""Functions that are changed, and the revision that installed them before."""


def upgrade() -> None:
    """Install them; the indexes are built outside a transaction, and what a failed build left is removed first."""
    for name in INSTALLED:
        install(name)
    schema = context.config.attributes["names"].schema
    with op.get_context().autocommit_block():
        for name, table, definition in ORDERS:
            if not context.is_offline_mode():
                drop_invalid(op.get_bind(), schema, name)
            op.execute(verbatim(build_statement(name, schema, table, definition)))


def downgrade() -> None:
    """Bring the former functions back, and remove what is new."""
    for name, at in FORMER:
        install(name, at)
    for name in REMOVED:
        install(name)
    for name, table, _ in ORDERS:
        op.drop_index(name, table)


def install(name: str, at: str = revision) -> None:
    """Run ``sql/<name>.sql`` as a revision had it."""
    op.execute(verbatim(installed_sql(name, context.config.attributes["names"], at)))
