"""The schema: roles, tables, policies, functions, figures, and the queue of jobs.

Revision: 0001
Revises: nothing
"""

from __future__ import annotations

import re

from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, quote_identifier, verbatim

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

FILES = (
    "installation/roles",
    "installation/tables",
    "items/facets",
    "items/tables",
    "search/tables",
    "records/tables",
    "learning/tables",
    "installation/access",
    "installation/policies",
    "items/attributes",
    "items/writing",
    "items/facet_search",
    "items/collection_facts",
    "items/forgetting",
    "search/terms",
    "search/neighbours",
    "search/vectors",
    "search/lexical_index",
    "search/lexical_search",
    "search/textsearch",
    "records/months",
    "learning/arms",
    "learning/feedback",
    "learning/off_policy",
    "records/item_figures",
    "records/search_figures",
    "records/exploration_figures",
    "installation/disagreements",
)
"""The files of ``sql/`` that make the schema, each after those that it needs."""

QUEUE = ("installation/queue_schema", "installation/procrastinate", "installation/queue_grants")
"""Those that make the queue, in a schema of its own."""

MADE = re.compile(r"^CREATE (?:OR REPLACE )?(FUNCTION|TABLE|TYPE|VIEW) (\w+)", re.MULTILINE)


def upgrade() -> None:
    """Make everything."""
    for name in FILES + QUEUE:
        op.execute(verbatim(text_of(name)))


def downgrade() -> None:
    """Remove everything, with what is in it; the roles too, unless another database of the server uses them."""
    schema = quote_identifier(context.config.attributes["names"].schema)
    for name in reversed(FILES):
        for kind, made in reversed(MADE.findall(text_of(name))):
            op.execute(verbatim(f"DROP {kind} IF EXISTS {schema}.{quote_identifier(made)} CASCADE"))
    op.execute(verbatim(text_of("installation/remove")))


def text_of(name: str) -> str:
    """The text of a file of ``sql/`` for this installation."""
    return installed_sql(name, context.config.attributes["names"])
