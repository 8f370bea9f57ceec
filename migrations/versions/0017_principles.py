"""What the applications that learn need: ratings, tags, and what a session was started with.

Revision: 0017
Revises: 0016
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.concurrent_index import (
    attach_statement,
    build_statement,
    drop_invalid,
    parent_statement,
    parts_without,
)
from retrieval.adapters.store.installed_sql import installed_sql, verbatim

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

ORDERS = (
    ("items_by_arrival_idx", "items", "(collection_id, created_at DESC, item_id) WHERE status <> 'archived'"),
    ("arms_anywhere_idx", "arms", "(collection_id, item_id) WHERE context = ''"),
)
"""Indexes on tables that may be large already: name, table, definition. The latest items, those with verdicts."""

SESSIONS = (
    "retrievals_by_session_idx",
    "retrievals",
    "(collection_id, session, retrieved_at DESC, retrieval_id DESC) WHERE session <> ''",
)
"""One on a table that months part: what a session was answered, the newest first."""


def upgrade() -> None:
    """Build the indexes, then add to the log of searches what an application tells of its answers."""
    # First, for it can be done again: what follows is one transaction.
    attach(build_indexes())
    install("query_log")


def build_indexes() -> list[str]:
    """Build them outside a transaction, what a failed build left is removed first; gives the parts that have theirs."""
    schema = context.config.attributes["names"].schema
    name, table, definition = SESSIONS
    op.execute(verbatim(parent_statement(name, schema, table, definition)))
    built = waiting_parts()
    with op.get_context().autocommit_block():
        for one, on, what in (*((index_of(part), part, definition) for part in built), *ORDERS):
            if not context.is_offline_mode():
                drop_invalid(op.get_bind(), schema, one)
            op.execute(verbatim(build_statement(one, schema, on, what)))
    return built


def attach(built: list[str]) -> None:
    """Let the parts' indexes be one. A month that was made meanwhile has it; one that was dropped needs none."""
    waiting = set(waiting_parts())
    for part in built:
        if part in waiting:
            statement = attach_statement(SESSIONS[0], context.config.attributes["names"].schema, index_of(part))
            op.execute(verbatim(statement))


def waiting_parts() -> list[str]:
    """The months, and what falls into none, that have no part of the index yet."""
    name, table, _ = SESSIONS
    if context.is_offline_mode():
        # A script sets up an empty schema, which has no months.
        return [f"{table}_default"]
    return parts_without(op.get_bind(), context.config.attributes["names"].schema, table, name)


def index_of(part: str) -> str:
    """The name of a part's index."""
    return f"{part}_by_session_idx"


def downgrade() -> None:
    """Take back the view and the indexes."""
    install("remove_query_log")
    for name, table, _ in (*ORDERS, SESSIONS):
        op.drop_index(name, table)


def install(name: str) -> None:
    """Run ``sql/<name>.sql`` as this revision had it."""
    op.execute(verbatim(installed_sql(name, context.config.attributes["names"], revision)))
