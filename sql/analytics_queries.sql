-- Figures about searches: what was asked, what found little, how long it took, and what was not recorded.
CREATE VIEW analytics_queries WITH (security_invoker = true) AS
SELECT
    c.name AS collection, r.retrieved_at, r.retrieval_id, r.query, r.condition, r.domain, r.complexity, r.actor, r.session,
    r.hits, r.hits = 0 AS is_empty, r.top_score, r.score_spread, r.path, r.retrieval_time_ms, r.profile_version,
    r.model_version, r.policy, r.notes, coalesce(r.request ->> 'origin', '') AS origin, r.generation_triggered,
    r.backtrack_count
FROM collections AS c
JOIN retrievals AS r ON r.collection_id = c.collection_id;
COMMENT ON VIEW analytics_queries IS 'The log of recorded searches, one a row.';
COMMENT ON COLUMN analytics_queries.condition IS 'The filter; {}: none.';
COMMENT ON COLUMN analytics_queries.actor IS 'Who asked; a pseudonym once it was made one.';
COMMENT ON COLUMN analytics_queries.hits IS 'How many items it found.';
COMMENT ON COLUMN analytics_queries.is_empty IS 'Whether it found none.';
COMMENT ON COLUMN analytics_queries.top_score IS 'The first hit''s; comparable within one profile version only.';
COMMENT ON COLUMN analytics_queries.score_spread IS 'The first score minus the fifth, or the last.';
COMMENT ON COLUMN analytics_queries.profile_version IS '0: the call brought a profile of its own, or an application put '
    'the answer together.';
COMMENT ON COLUMN analytics_queries.model_version IS '0: nothing learned counted.';
COMMENT ON COLUMN analytics_queries.policy IS 'The exploration policy.';
COMMENT ON COLUMN analytics_queries.notes IS 'What the caller was told: a leg that could not run, and why.';
COMMENT ON COLUMN analytics_queries.origin IS 'What put the answer together, where that was an application; empty: a '
    'search.';
COMMENT ON COLUMN analytics_queries.generation_triggered IS 'Whether the caller had candidates made by a model.';
COMMENT ON COLUMN analytics_queries.backtrack_count IS 'How often the caller had come back for another answer.';

CREATE TYPE analytics_poor_queries_row AS (
    collection text, query text, reason text, searches bigint, profile_version integer, top_score double precision,
    last_asked_at timestamptz
);
COMMENT ON COLUMN analytics_poor_queries_row.reason IS 'no result, or low score: among the lowest 5 % of best scores '
    'that the same profile version gave in the period (so none among fewer than 20 searches).';
COMMENT ON COLUMN analytics_poor_queries_row.searches IS 'How often that happened to the query.';
COMMENT ON COLUMN analytics_poor_queries_row.top_score IS 'The mean best score; NULL without a result.';

CREATE FUNCTION analytics_poor_queries(
    collection text DEFAULT NULL, since timestamptz DEFAULT now() - interval '28 days',
    until timestamptz DEFAULT 'infinity'
) RETURNS SETOF analytics_poor_queries_row LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT asked.name, asked.query, CASE WHEN asked.is_empty THEN 'no result' ELSE 'low score' END, count(*),
        asked.profile_version, avg(asked.top_score), max(asked.retrieved_at)
    FROM (
        SELECT c.name, r.query, r.hits = 0 AS is_empty, r.profile_version, r.top_score, r.retrieved_at,
            cume_dist() OVER (PARTITION BY c.collection_id, r.profile_version, r.hits = 0 ORDER BY r.top_score) AS share
        FROM collections AS c
        JOIN retrievals AS r ON r.collection_id = c.collection_id
        WHERE r.retrieved_at >= since AND r.retrieved_at < until
            AND (analytics_poor_queries.collection IS NULL OR c.name = analytics_poor_queries.collection)
    ) AS asked
    WHERE asked.is_empty OR asked.share <= 0.05
    GROUP BY asked.name, asked.query, asked.is_empty, asked.profile_version;
END;
COMMENT ON FUNCTION analytics_poor_queries(text, timestamptz, timestamptz) IS
    'Queries of a period that found nothing, or nothing that scored well.';

CREATE TYPE analytics_latency_row AS (
    collection text, day date, path text, stage text, searches bigint, p50_ms double precision, p95_ms double precision,
    p99_ms double precision, slowest_ms double precision
);
COMMENT ON COLUMN analytics_latency_row.day IS 'In UTC.';
COMMENT ON COLUMN analytics_latency_row.path IS 'How the dense leg went about it: exact, approximate, none.';
COMMENT ON COLUMN analytics_latency_row.stage IS 'embed, candidates, items and so on; total: the whole search.';
COMMENT ON COLUMN analytics_latency_row.p50_ms IS 'Percentiles between two searches are interpolated.';

CREATE FUNCTION analytics_latency(
    collection text DEFAULT NULL, since timestamptz DEFAULT now() - interval '28 days',
    until timestamptz DEFAULT 'infinity'
) RETURNS SETOF analytics_latency_row LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT c.name, (r.retrieved_at AT TIME ZONE 'UTC')::date, r.path, stage.key, count(*),
        percentile_cont(0.5) WITHIN GROUP (ORDER BY stage.value::double precision),
        percentile_cont(0.95) WITHIN GROUP (ORDER BY stage.value::double precision),
        percentile_cont(0.99) WITHIN GROUP (ORDER BY stage.value::double precision),
        max(stage.value::double precision)
    FROM collections AS c
    JOIN retrievals AS r ON r.collection_id = c.collection_id
    CROSS JOIN LATERAL jsonb_each_text(r.timings_ms || jsonb_build_object('total', r.retrieval_time_ms)) AS stage
    WHERE r.retrieved_at >= since AND r.retrieved_at < until
        AND (analytics_latency.collection IS NULL OR c.name = analytics_latency.collection)
    GROUP BY c.name, 2, r.path, stage.key;
END;
COMMENT ON FUNCTION analytics_latency(text, timestamptz, timestamptz) IS
    'How long searches took in a period, by day, path and stage.';

CREATE VIEW analytics_losses WITH (security_invoker = true) AS
SELECT c.name AS collection, l.day, l.reason, l.retrievals
FROM collections AS c
JOIN recording_losses AS l ON l.collection_id = c.collection_id;
COMMENT ON VIEW analytics_losses IS 'Searches that were answered and not recorded, by day and reason.';
COMMENT ON COLUMN analytics_losses.day IS 'In UTC.';
COMMENT ON COLUMN analytics_losses.retrievals IS 'How many.';

REVOKE ALL ON FUNCTION analytics_poor_queries(text, timestamptz, timestamptz),
    analytics_latency(text, timestamptz, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION analytics_poor_queries(text, timestamptz, timestamptz),
    analytics_latency(text, timestamptz, timestamptz) TO @app@, @analyst@;
GRANT SELECT ON analytics_queries, analytics_losses TO @app@, @analyst@;
