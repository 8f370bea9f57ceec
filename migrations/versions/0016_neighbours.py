"""Items in a sequence are indexed together with their neighbours.

Revision: 0016
Revises: 0015
"""

from __future__ import annotations

from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, verbatim
from retrieval.adapters.store.protection import protection

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

FUNCTIONS = (
    "item_places",
    "mix_vectors",
    "place_items",
    "window_terms",
    "reindex_terms",
    "index_terms",
    "set_neighbours",
    "items_containing",
    "textsearch_search",
)
"""Functions that are new or changed, each after those that it calls."""

FORMER = (("textsearch_search", "0007"), ("items_containing", "0004"), ("index_terms", "0004"))
"""Those that were there before, and the revision that installed them."""


def upgrade() -> None:
    """Let collections say that their items have neighbours; none says so yet."""
    install("neighbour_tables")
    names = context.config.attributes["names"]
    for table in ("item_places", "own_vectors"):
        for statement in protection(table, names):
            op.execute(verbatim(statement))
    for name in FUNCTIONS:
        install(name)


def downgrade() -> None:
    """Give every item its own index back, and bring the former functions back."""
    # A large installation takes longer than a statement may elsewhere.
    op.execute("SET LOCAL statement_timeout = 0")
    install("forget_neighbours")
    for name, at in FORMER:
        install(name, at)
    install("remove_neighbours")


def install(name: str, at: str = revision) -> None:
    """Run ``sql/<name>.sql`` as a revision had it."""
    op.execute(verbatim(installed_sql(name, context.config.attributes["names"], at)))
