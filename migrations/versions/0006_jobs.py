"""Jobs: their queue, their runs, sampled queries, measured recall.

Revision: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op
from pgvector.sqlalchemy import HALFVEC
from sqlalchemy.dialects.postgresql import JSONB, REAL

from retrieval.adapters.store.installed_sql import installed_sql, quote_identifier, verbatim
from retrieval.adapters.store.protection import protection

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLES = ("job_runs", "query_samples", "recall_measurements")


def upgrade() -> None:
    """Make the queue in a schema of its own, and the tables of what jobs find."""
    for name in ("jobs_schema", "procrastinate", "jobs_grants"):
        install(name)
    make_runs()
    make_samples()
    make_measurements()
    for table in TABLES:
        for statement in protection(table, context.config.attributes["names"]):
            op.execute(verbatim(statement))
    install("every_collection")


def downgrade() -> None:
    """Remove them, with every job that waits."""
    op.execute("DROP FUNCTION every_collection()")
    for table in reversed(TABLES):
        op.drop_table(table)
    op.execute(verbatim(f"DROP SCHEMA {quote_identifier(context.config.attributes['names'].jobs_schema)} CASCADE"))


def install(name: str) -> None:
    """Run ``sql/<name>.sql`` as this revision had it."""
    op.execute(verbatim(installed_sql(name, context.config.attributes["names"], revision)))


def now(name: str) -> sa.Column[object]:
    """A time that defaults to the transaction's."""
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())


def collection_id() -> sa.Column[int]:
    """The collection that a row belongs to."""
    return sa.Column("collection_id", sa.BigInteger, nullable=False)


def belongs_to(table: str, column: str, owner: str) -> sa.ForeignKeyConstraint:
    """A row goes with its owner."""
    return sa.ForeignKeyConstraint([column], [f"{owner}.{column}"], ondelete="CASCADE", name=f"{table}_{column}_fkey")


def make_runs() -> None:
    """What ran, when, and what became of it."""
    op.create_table(
        "job_runs",
        collection_id(),
        sa.Column("run_id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        now("started_at"),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.Column("outcome", sa.Text, nullable=False, server_default=sa.text("'running'")),
        sa.Column("details", JSONB, nullable=False, server_default=sa.text("'{}'")),
        sa.PrimaryKeyConstraint("collection_id", "run_id", name="job_runs_pkey"),
        belongs_to("job_runs", "collection_id", "collections"),
    )
    op.create_index("job_runs_collection_id_job_run_id_idx", "job_runs", ["collection_id", "job", "run_id"])


def make_samples() -> None:
    """Live queries that an HNSW index answered, to be asked again."""
    op.create_table(
        "query_samples",
        collection_id(),
        sa.Column("sample_id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("space_id", sa.BigInteger, nullable=False),
        sa.Column("vector", HALFVEC, nullable=False),
        sa.Column("condition", JSONB),
        sa.Column("result_limit", sa.Integer, nullable=False),
        now("sampled_at"),
        sa.PrimaryKeyConstraint("collection_id", "sample_id", name="query_samples_pkey"),
        belongs_to("query_samples", "collection_id", "collections"),
        belongs_to("query_samples", "space_id", "embedding_spaces"),
    )


def make_measurements() -> None:
    """How much of the truth the index found, by how many items the filters let through."""
    op.create_table(
        "recall_measurements",
        collection_id(),
        sa.Column("space_id", sa.BigInteger, nullable=False),
        now("measured_at"),
        sa.Column("bucket", sa.Text, nullable=False),
        sa.Column("samples", sa.Integer, nullable=False),
        sa.Column("recall", REAL, nullable=False),
        sa.Column("short_pages", sa.Integer, nullable=False),
        sa.Column("effort", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("collection_id", "space_id", "measured_at", "bucket", name="recall_measurements_pkey"),
        belongs_to("recall_measurements", "collection_id", "collections"),
        belongs_to("recall_measurements", "space_id", "embedding_spaces"),
    )
