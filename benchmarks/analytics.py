"""The figures at a million impressions: how long each view takes for a week of one collection, and by which plan.

    python benchmarks/analytics.py [--quick]

100,000 searches of 10 hits over half a year, in months, a tenth of them another tenant's; every tenth hit is rated.
Asked as the application role, with row-level security. Results go to ``benchmarks/results/analytics.{json,md}``.
"""

from __future__ import annotations

import re
import statistics
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from command import machine, parser_of, write
from psycopg import sql
from report import table
from server import Server, running, settle

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.records.analytics import CATALOGUE, analytics_statement, views_of
from retrieval.domain.records.analytics import AnalyticsView, ViewQuestion

UNTIL = datetime(2026, 6, 20, tzinfo=UTC)
SINCE = UNTIL - timedelta(days=7)
"""A week in the middle of a month, whenever this runs: then most of the month is not asked for."""
COLLECTION = "big"
ROUNDS = 5

MONTHS = """
    DO $months$
    DECLARE
        begins timestamptz := date_trunc('month', timestamptz '2026-06-20+00' - interval '200 days', 'UTC');
        part text;
    BEGIN
        WHILE begins < timestamptz '2026-06-20+00' LOOP
            part := to_char(begins AT TIME ZONE 'UTC', '"retrievals_"YYYY"_"MM');
            IF to_regclass(part) IS NULL THEN
                EXECUTE format('CREATE TABLE %I PARTITION OF retrievals FOR VALUES FROM (%L) TO (%L)', part, begins,
                               date_trunc('month', begins + interval '32 days', 'UTC'));
            END IF;
            begins := date_trunc('month', begins + interval '32 days', 'UTC');
        END LOOP;
    END
    $months$
"""
"""The months of the half year that is filled."""

FILL = (
    "INSERT INTO tenants (name) VALUES ('one'), ('other')",
    "INSERT INTO collections (tenant_id, name) SELECT tenant_id, 'big' FROM tenants ORDER BY tenant_id",
    """
    INSERT INTO collections (tenant_id, name)
    SELECT tenant_id, 'other-' || n FROM tenants, generate_series(1, 8) AS n WHERE tenants.name = 'other'
    """,
    """
    INSERT INTO items (collection_id, item_id, kind, title, body, tags, attributes, status, source, content_hash,
        text_hash)
    SELECT c.collection_id, 'item-' || n, '', 'Item ' || n, repeat('words ', 50), '{}', '{}', 'active', '', '', ''
    FROM collections AS c, generate_series(1, @items@) AS n
    """,
    """
    CREATE TEMPORARY TABLE asked AS
    SELECT n, gen_random_uuid() AS retrieval_id,
        timestamptz '2026-06-20+00' - n * interval '180 days' / @searches@ AS retrieved_at,
        own.ids[CASE WHEN n % 10 = 0 THEN 2 ELSE 1 END] AS collection_id
    FROM generate_series(1, @searches@) AS n,
        (SELECT array_agg(collection_id ORDER BY collection_id) AS ids FROM collections) AS own
    """,
    """
    INSERT INTO retrievals (collection_id, retrieval_id, retrieved_at, actor, domain, query, condition, request,
        profile_version, model_version, policy, statistics_at, seed, eligible, hits, path, notes, timings_ms,
        retrieval_time_ms, top_score, score_spread, generation_triggered, backtrack_count, legs, bests, pool_items,
        pool_scores, pool_ranks, shown_items, shown_scores, shown_slots, propensities)
    SELECT collection_id, retrieval_id, retrieved_at, 'actor-' || n % 50, 'domain-' || n % 5,
        'words of query ' || n % 5000, '{}', '{}', 1 + n / 30000, n / 50000, 'thompson_slots/1', retrieved_at, n, 10,
        CASE WHEN n % 50 = 0 THEN 0 ELSE 10 END, (ARRAY['exact', 'approximate'])[1 + n % 2], '{}',
        jsonb_build_object('embed', random() * 5, 'candidates', random() * 10, 'items', random(), 'total', 16),
        random() * 16, random(), random() / 10, false, 0, '{dense,lexical}', '{1,1}', shown.pool,
        ARRAY[shown.scores, shown.scores], ARRAY[shown.ranks, shown.ranks], shown.items, shown.values, shown.slots,
        shown.chances
    FROM asked CROSS JOIN LATERAL (
        SELECT array_agg('item-' || 1 + (n * 7 + rank * rank * 13) % @items@ ORDER BY rank) AS pool,
            array_agg(random()::real ORDER BY rank) AS scores, array_agg(rank::smallint ORDER BY rank) AS ranks,
            array_agg('item-' || 1 + (n * 7 + rank * rank * 13) % @items@ ORDER BY rank)
                FILTER (WHERE rank <= 10) AS items,
            array_agg(1.0 / rank ORDER BY rank) FILTER (WHERE rank <= 10) AS values,
            array_agg(CASE WHEN rank = 10 THEN 'explore' WHEN n % 50 = 1 AND rank < 3 THEN 'swap' ELSE 'exploit' END
                ORDER BY rank) FILTER (WHERE rank <= 10) AS slots,
            array_agg(CASE WHEN rank = 10 THEN 0.1 ELSE 1 END ORDER BY rank) FILTER (WHERE rank <= 10) AS chances
        FROM generate_series(1, 100) AS rank
    ) AS shown
    """,
    """
    INSERT INTO feedback (collection_id, item_id, feedback_key, subject, retrieval_id, actor, kind, reward, weight,
        contexts, occurred_at, received_at)
    SELECT collection_id, item_id, gen_random_uuid(), gen_random_uuid(), retrieval_id, 'actor-' || rank, 'rating',
        random(), 1, '{""}', retrieved_at, retrieved_at + interval '1 minute'
    FROM impressions WHERE hashtext(retrieval_id::text || rank) % 10 = 0
    """,
    """
    INSERT INTO arms (collection_id, item_id, context, successes, failures, uses, raw_successes, last_used_at)
    SELECT c.collection_id, 'item-' || n, bucket, 3, 2, 5, 3, now() - n * interval '1 minute'
    FROM collections AS c, generate_series(1, @items@, 2) AS n, unnest(ARRAY['', 'domain=a', 'domain=b']) AS bucket
    """,
    "INSERT INTO recording_losses SELECT collection_id, current_date - 1, 'overflow', 3 FROM collections",
    """
    INSERT INTO recall_measurements (collection_id, space_id, bucket, samples, recall, short_pages, effort)
    SELECT collection_id, register_embedding_space('none', 'none', '1', 3, 'cosine', '', ''), 'all', 20, 0.99, 0, 40
    FROM collections
    """,
    "DROP TABLE asked",
)


@dataclass(frozen=True, slots=True)
class Extent:
    """The number of rows stored."""

    searches: int
    items: int


NORMAL = Extent(100_000, 10_000)
QUICK = Extent(1_000, 200)


def fill(connection: psycopg.Connection[Any], extent: Extent) -> None:
    """Store searches, impressions, feedback and arms; the connection is a superuser's, its path the schema's."""
    connection.execute(MONTHS)
    for statement in FILL:
        text = statement.replace("@searches@", str(extent.searches)).replace("@items@", str(extent.items))
        connection.execute(text.encode())


def question(view: AnalyticsView) -> Compiled:
    """The first 50 rows of a week of one collection; of what is about items, of all time."""
    is_of_period = view.is_function or view.name in ("queries", "rated")
    since, until = (SINCE, UNTIL) if is_of_period else (None, None)
    return analytics_statement(view, ViewQuestion(collection=COLLECTION, since=since, until=until, limit=50), UNTIL)


def plan_of(connection: psycopg.Connection[Any], statement: Compiled) -> dict[str, Any]:
    """The plan as JSON, run and timed."""
    row = connection.execute(
        b"EXPLAIN (ANALYZE, FORMAT JSON) " + statement.text.encode(), statement.parameters
    ).fetchone()
    return row[0][0]["Plan"] if row else {}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The plan's nodes that were run, from the top."""
    if plan.get("Actual Loops", 1):
        yield plan
        for inner in plan.get("Plans", ()):
            yield from nodes(inner)


def scans(plan: dict[str, Any]) -> list[str]:
    """The tables that were read and how: ``Index Scan of impressions_2026_11 by ...``; months are one table."""
    names = {
        f"{node['Node Type']} of {node.get('Relation Name') or node.get('Index Name')}"
        for node in nodes(plan)
        if "Relation Name" in node or node["Node Type"] == "Bitmap Index Scan"
    }
    return sorted(names)


def act(connection: psycopg.Connection[Any], tenant: str) -> None:
    """For the rest of the transaction, be the application role and act for the tenant."""
    connection.execute(
        "SELECT set_config('retrieval.tenant', tenant_id::text, true) FROM retrieval.tenants WHERE name = %s", (tenant,)
    )
    connection.execute("SELECT set_config('role', 'retrieval_app', true)")


@contextmanager
def analyst(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Meanwhile, be the session of a login that is the first tenant's analyst."""
    login = sql.Identifier(f"analyst_{uuid.uuid4().hex[:12]}")
    connection.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE retrieval_analyst").format(login))
    connection.execute(
        "INSERT INTO retrieval.analyst_logins (login, tenant_id) "
        "SELECT %s, tenant_id FROM retrieval.tenants WHERE name = 'one'",
        (login.as_string().strip('"'),),
    )
    connection.execute(sql.SQL("SET LOCAL SESSION AUTHORIZATION {}").format(login))
    yield
    # The login was never committed.
    connection.rollback()


def views(connection: psycopg.Connection[Any]) -> list[AnalyticsView]:
    """All of them, as the catalogue has them."""
    return views_of(connection.execute(CATALOGUE.text.encode(), {"schema": "retrieval"}).fetchall())


def measure(connection: psycopg.Connection[Any], view: AnalyticsView) -> dict[str, Any]:
    """The time and the plan of one view."""
    statement = question(view)
    plan = plan_of(connection, statement)
    seconds = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        rows = connection.execute(statement.text.encode(), statement.parameters).fetchall()
        seconds.append(time.perf_counter() - begun)
    return {
        "view": view.name,
        "ms": round(statistics.median(seconds) * 1e3, 1),
        "rows": len(rows),
        "nodes": sorted({node["Node Type"] for node in nodes(plan)}),
        "scans": scans(plan),
    }


def run(extent: Extent, server: Server) -> dict[str, Any]:
    """Fill and measure; gives what the JSON file holds."""
    url = server.database("analytics", platform=True)
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = retrieval, public")
        begun = time.perf_counter()
        fill(connection, extent)
        connection.commit()
        print(f"filled in {time.perf_counter() - begun:.0f} s", file=sys.stderr)
    settle(url)
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = retrieval, public")
        act(connection, "one")
        rows = [measure(connection, view) for view in views(connection)]
        connection.execute("RESET ROLE")
        with analyst(connection):
            for row, view in zip(rows, views(connection), strict=True):
                row["analyst"] = {name: measure(connection, view)[name] for name in ("ms", "rows", "scans")}
        impressions = extent.searches * 10
    return {
        "about": {**machine(), "searches": extent.searches, "impressions": impressions},
        "views": rows,
    }


def read(scans_of_view: Sequence[str]) -> str:
    """The scans of a view, months of one table together."""
    together = Counter(re.sub(r"_\d{4}_\d{2}$", "", name) for name in scans_of_view)
    return ", ".join(f"{name} ({number} months)" if number > 1 else name for name, number in together.items())


def page(result: dict[str, Any]) -> str:
    """The report."""
    about = result["about"]
    rows = [
        {
            "view": view["view"],
            "ms": view["ms"],
            "ms, an analyst's login": view["analyst"]["ms"],
            "rows": view["rows"],
            "what is read": read(view["scans"]),
        }
        for view in result["views"]
    ]
    return f"""# Figures at {about["impressions"]:,} impressions

{about["searches"]:,} searches over half a year, a tenth of them another tenant's. Each view for a week of
one collection, at most 50 rows, as the application role with row-level security.

{table(rows)}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    options = parser_of(__doc__, "a few searches, to see that it runs").parse_args(arguments)
    with running(options.server) as server:
        result = run(QUICK if options.quick else NORMAL, server)
    write("analytics", result, page(result), options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
