-- Figures about searches, profiles, models and received feedback.
CREATE VIEW analytics_queries WITH (security_invoker = true) AS
SELECT
    c.name AS collection, r.retrieved_at, r.retrieval_id, r.query, r.condition, r.domain, r.complexity, r.actor, r.session,
    r.hits, r.hits = 0 AS is_empty, r.top_score, r.score_spread, r.path, r.retrieval_time_ms, r.profile_version,
    r.model_version, r.policy, r.notes, coalesce(r.request ->> 'origin', '') AS origin, r.generation_triggered,
    r.backtrack_count
FROM collections AS c
JOIN retrievals AS r ON r.collection_id = c.collection_id;
COMMENT ON VIEW analytics_queries IS 'The log of recorded searches, one a row.';
COMMENT ON COLUMN analytics_queries.query IS
    'The searched words, without the marks of phrases and prefixes, and without excluded words.';
COMMENT ON COLUMN analytics_queries.condition IS 'The filter; {}: none.';
COMMENT ON COLUMN analytics_queries.actor IS 'The actor who asked, or a pseudonym.';
COMMENT ON COLUMN analytics_queries.hits IS 'Those of a further page include the hits of the pages before it.';
COMMENT ON COLUMN analytics_queries.top_score IS
    'The score of the first hit; comparable within one profile and model version only.';
COMMENT ON COLUMN analytics_queries.score_spread IS 'The first score minus the fifth, or minus the last of fewer.';
COMMENT ON COLUMN analytics_queries.profile_version IS
    '0: the call had its own profile, or an application composed the answer.';
COMMENT ON COLUMN analytics_queries.model_version IS '0: no model was used.';
COMMENT ON COLUMN analytics_queries.policy IS 'The exploration policy.';
COMMENT ON COLUMN analytics_queries.notes IS 'Notes to the caller, such as the reason why a leg did not run.';
COMMENT ON COLUMN analytics_queries.origin IS 'The application that composed the answer; empty: a search.';
COMMENT ON COLUMN analytics_queries.generation_triggered IS 'True if a language model made candidates for the caller.';
COMMENT ON COLUMN analytics_queries.backtrack_count IS 'The number of times that the caller asked for another answer.';

CREATE TYPE analytics_poor_queries_row AS (
    collection text, query text, reason text, searches bigint, profile_version integer, top_score double precision,
    last_asked_at timestamptz
);
COMMENT ON COLUMN analytics_poor_queries_row.reason IS
    'no result, perhaps because of a filter; or low score: among the lowest 5 % of the best scores of 20 searches or more '
    'in the period with the same profile, model and legs.';
COMMENT ON COLUMN analytics_poor_queries_row.searches IS 'The number of such searches with the query.';
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
            cume_dist() OVER (PARTITION BY c.collection_id, r.profile_version, r.request -> 'profile', r.request -> 'origin',
                r.model_version, r.legs, r.hits = 0 ORDER BY r.top_score) AS share
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
COMMENT ON COLUMN analytics_latency_row.path IS 'The way of the dense leg: exact, approximate, none.';
COMMENT ON COLUMN analytics_latency_row.stage IS 'embed, candidates, items and so on; total: the whole search.';
COMMENT ON COLUMN analytics_latency_row.searches IS 'Each of many searches at once has the duration of their call.';
COMMENT ON COLUMN analytics_latency_row.p50_ms IS 'The median; percentiles between two searches are interpolated.';

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
    'The duration of a period''s searches, by day, path and stage.';

CREATE VIEW analytics_losses WITH (security_invoker = true) AS
SELECT c.name AS collection, l.day, l.reason, l.retrievals
FROM collections AS c
JOIN recording_losses AS l ON l.collection_id = c.collection_id;
COMMENT ON VIEW analytics_losses IS 'Searches that were answered but not recorded, by day and reason.';
COMMENT ON COLUMN analytics_losses.day IS 'In UTC.';

CREATE VIEW analytics_recall WITH (security_invoker = true) AS
SELECT c.name AS collection, m.measured_at, m.bucket, m.samples, m.recall, m.short_pages, m.effort
FROM collections AS c
JOIN recall_measurements AS m ON m.collection_id = c.collection_id;
COMMENT ON VIEW analytics_recall IS 'The measured recall of approximate searches, by measurement and bucket of matching items.';
COMMENT ON COLUMN analytics_recall.bucket IS
    'The range of the number of items that the searches'' filters let through.';
COMMENT ON COLUMN analytics_recall.samples IS 'The searches that were repeated exactly.';
COMMENT ON COLUMN analytics_recall.recall IS 'The mean share, 0 to 1, of the nearest items that was found.';
COMMENT ON COLUMN analytics_recall.short_pages IS 'The searches that found fewer items than there are.';
COMMENT ON COLUMN analytics_recall.effort IS 'The least search effort (hnsw.ef_search) of the searches.';

GRANT SELECT ON analytics_queries, analytics_losses, analytics_recall TO @app@, @analyst@;

CREATE TYPE analytics_profiles_row AS (
    collection text, profile_version integer, model_version integer, searches bigint, empty_searches bigint,
    top_score double precision, p50_ms double precision, p95_ms double precision, rated bigint,
    rated_searches bigint, reward double precision, reward_se double precision,
    first_searched_at timestamptz, last_searched_at timestamptz
);
COMMENT ON COLUMN analytics_profiles_row.profile_version IS
    '0: calls with their own profile and answers that an application composed, in one row.';
COMMENT ON COLUMN analytics_profiles_row.model_version IS '0: no model was used.';
COMMENT ON COLUMN analytics_profiles_row.empty_searches IS 'Searches without a result.';
COMMENT ON COLUMN analytics_profiles_row.top_score IS 'The mean best score; its scale depends on the profile.';
COMMENT ON COLUMN analytics_profiles_row.p50_ms IS 'The median of whole searches.';
COMMENT ON COLUMN analytics_profiles_row.rated IS 'Impressions with feedback that counts.';
COMMENT ON COLUMN analytics_profiles_row.rated_searches IS 'Searches with at least one rated impression.';
COMMENT ON COLUMN analytics_profiles_row.reward IS 'The mean reward of the rated impressions.';
COMMENT ON COLUMN analytics_profiles_row.reward_se IS
    'The standard error of the reward, with the impressions of a search as one group.';

CREATE FUNCTION analytics_profiles(
    collection text DEFAULT NULL, since timestamptz DEFAULT now() - interval '28 days',
    until timestamptz DEFAULT 'infinity'
) RETURNS SETOF analytics_profiles_row LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT summed.name, summed.profile_version, summed.model_version, summed.searches, summed.empty_searches,
        summed.top_score, summed.p50_ms, summed.p95_ms, coalesce(summed.rated, 0)::bigint, summed.rated_searches,
        summed.total / summed.rated,
        -- Of a ratio of sums over searches: sqrt(n / (n - 1) * sum((total - mean * number) ** 2)) / sum(number).
        sqrt(summed.rated_searches / nullif(summed.rated_searches - 1, 0)::double precision * greatest(0,
            summed.total_squares - 2 * summed.total / summed.rated * summed.products
            + power(summed.total / summed.rated, 2) * summed.number_squares)) / summed.rated,
        summed.first_at, summed.last_at
    FROM (
        SELECT c.name, r.profile_version, r.model_version, count(*) AS searches,
            count(*) FILTER (WHERE r.hits = 0) AS empty_searches, avg(r.top_score) AS top_score,
            percentile_cont(0.5) WITHIN GROUP (ORDER BY r.retrieval_time_ms) AS p50_ms,
            percentile_cont(0.95) WITHIN GROUP (ORDER BY r.retrieval_time_ms) AS p95_ms,
            min(r.retrieved_at) AS first_at, max(r.retrieved_at) AS last_at,
            count(one.number) AS rated_searches, sum(one.number) AS rated, sum(one.total) AS total,
            sum(one.total * one.total) AS total_squares, sum(one.total * one.number) AS products,
            sum(one.number * one.number) AS number_squares
        FROM collections AS c
        JOIN retrievals AS r ON r.collection_id = c.collection_id
        LEFT JOIN (
            SELECT v.collection_id, v.retrieval_id, v.retrieved_at, count(*)::double precision AS number,
                sum(v.reward) AS total
            FROM analytics_rated AS v
            WHERE v.retrieved_at >= since AND v.retrieved_at < until
                AND (analytics_profiles.collection IS NULL OR v.collection = analytics_profiles.collection)
            GROUP BY v.collection_id, v.retrieval_id, v.retrieved_at
        ) AS one ON one.collection_id = r.collection_id AND one.retrieval_id = r.retrieval_id
            AND one.retrieved_at = r.retrieved_at
        WHERE r.retrieved_at >= since AND r.retrieved_at < until
            AND (analytics_profiles.collection IS NULL OR c.name = analytics_profiles.collection)
        GROUP BY c.name, r.profile_version, r.model_version
    ) AS summed;
END;
COMMENT ON FUNCTION analytics_profiles(text, timestamptz, timestamptz) IS
    'Searches, scores, rewards and latency of a period, by profile version and model version.';

CREATE TYPE analytics_feedback_row AS (
    collection text, kind text, actor text, discounted text, events bigint, superseded bigint, counting bigint,
    weight double precision, reward double precision, first_received_at timestamptz, last_received_at timestamptz
);
COMMENT ON COLUMN analytics_feedback_row.actor IS 'The actor who gave the feedback; empty: unknown.';
COMMENT ON COLUMN analytics_feedback_row.discounted IS 'The reason why the events do not count; empty: they count.';
COMMENT ON COLUMN analytics_feedback_row.superseded IS 'The events that a later verdict replaced.';
COMMENT ON COLUMN analytics_feedback_row.counting IS 'The events that count.';
COMMENT ON COLUMN analytics_feedback_row.weight IS 'The sum of the weights of the events that count.';
COMMENT ON COLUMN analytics_feedback_row.reward IS 'The mean reward of all events, whether they count or not.';

CREATE FUNCTION analytics_feedback(
    collection text DEFAULT NULL, since timestamptz DEFAULT now() - interval '28 days',
    until timestamptz DEFAULT 'infinity'
) RETURNS SETOF analytics_feedback_row LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT c.name, f.kind, f.actor, f.discounted, count(*), count(f.superseded_at),
        count(*) FILTER (WHERE f.superseded_at IS NULL AND f.weight > 0),
        coalesce(sum(f.weight) FILTER (WHERE f.superseded_at IS NULL), 0),
        avg(f.reward), min(f.received_at), max(f.received_at)
    FROM collections AS c
    JOIN feedback AS f ON f.collection_id = c.collection_id
    WHERE f.received_at >= since AND f.received_at < until
        AND (analytics_feedback.collection IS NULL OR c.name = analytics_feedback.collection)
    GROUP BY c.name, f.kind, f.actor, f.discounted;
END;
COMMENT ON FUNCTION analytics_feedback(text, timestamptz, timestamptz) IS
    'Feedback received in a period, by kind, actor and reason for a discount.';

GRANT EXECUTE ON FUNCTION analytics_poor_queries, analytics_latency, analytics_profiles, analytics_feedback
    TO @app@, @analyst@;
