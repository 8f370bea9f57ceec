"""The lexical index: terms by their spelling, for prefixes; phrases; items chosen by pairs of terms.

Revision: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op

from retrieval.adapters.store.installed_sql import installed_sql, verbatim

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

CHANGED = ("analyze_text", "index_terms", "query_terms", "lexical_query", "lexical_search")
"""Functions of the first revision that this one replaces, each after those that it calls."""

FORMER_SIGNATURES = (
    "lexical_search(bigint, text, integer, integer)",
    "lexical_query(bigint, text)",
    "query_terms(bigint, text)",
    "analyze_text(bigint, regconfig, text)",
)
SIGNATURES = (
    "name_terms(bigint)",
    "items_containing(bigint, text)",
    "holds_phrase(regconfig, text, tsquery, text[], integer)",
    "lexical_search(bigint, text, text[], integer, integer)",
    "lexical_query(bigint, text, text[])",
    "query_terms(bigint, text, text[])",
    "prefix_terms(bigint, regconfig, text)",
    "analyze_text(bigint, regconfig, text, boolean)",
    "spaced_out(text)",
    "usual_width(text)",
    "unspaced()",
)
FUNCTIONS = (
    "unspaced",
    "analyze_text",
    "index_terms",
    "prefix_terms",
    "query_terms",
    "lexical_query",
    "lexical_search",
    "items_containing",
    "name_terms",
)


def upgrade() -> None:
    """Terms get their spelling, also those that are there already."""
    op.add_column("term_statistics", sa.Column("term", sa.Text(collation="C")))
    op.create_index("term_statistics_collection_id_term_idx", "term_statistics", ["collection_id", "term"])
    # Many entries of one word go into the index together, which takes a fifth of the time and of the log. Who writes
    # keeps the list of what waits short (``retrieval.adapters.store.items``).
    op.execute("ALTER INDEX item_terms_lexemes_idx RESET (fastupdate)")
    drop(FORMER_SIGNATURES)
    for name in FUNCTIONS:
        install(name, revision)
    # A large installation takes longer than a statement may elsewhere.
    op.execute("SET LOCAL statement_timeout = 0")
    install("spell_terms", revision)


def downgrade() -> None:
    """Bring the former functions back; the spellings go."""
    drop(SIGNATURES)
    for name in CHANGED:
        install(name, "0001")
    install("former_lexical_grants", revision)
    op.execute("ALTER INDEX item_terms_lexemes_idx SET (fastupdate = off)")
    op.drop_index("term_statistics_collection_id_term_idx", "term_statistics")
    op.drop_column("term_statistics", "term")


def drop(signatures: tuple[str, ...]) -> None:
    """Remove functions that take, or give, something else now."""
    for signature in signatures:
        op.execute(verbatim(f"DROP FUNCTION {signature}"))


def install(name: str, at: str) -> None:
    """Run ``sql/<name>.sql`` as a revision had it."""
    op.execute(verbatim(installed_sql(name, context.config.attributes["names"], at)))
