"""The schema: roles, tables, policies, functions, figures, and the queue of jobs.

Revision: 0001
Revises: nothing
"""

from __future__ import annotations

import re

from alembic import context, op
from procrastinate.schema import SchemaManager

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

MADE = re.compile(r"^CREATE (?:OR REPLACE )?(FUNCTION|TABLE|TYPE|VIEW) (\w+)", re.MULTILINE)


def upgrade() -> None:
    """Make everything."""
    for name in FILES:
        op.execute(verbatim(text_of(name)))
    functions = [made for name in FILES for kind, made in MADE.findall(text_of(name)) if kind == "FUNCTION"]
    op.execute(f"REVOKE ALL ON FUNCTION {', '.join(functions)} FROM PUBLIC")
    # The queue has a schema of its own, in which procrastinate's release makes its tables.
    op.execute(verbatim(text_of("installation/queue_schema")))
    # Alembic replaces tabs in a script; this keeps both ways to upgrade the same.
    op.execute(verbatim(SchemaManager.get_schema().replace("\t", "    ")))
    op.execute(verbatim(text_of("installation/queue_grants")))


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
