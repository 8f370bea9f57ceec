-- The log of searches as sql/analytics_queries.sql made it, without what sql/query_log.sql added.
DROP VIEW analytics_queries;
CREATE VIEW analytics_queries WITH (security_invoker = true) AS
SELECT
    c.name AS collection, r.retrieved_at, r.retrieval_id, r.query, r.condition, r.domain, r.complexity, r.actor, r.session,
    r.hits, r.hits = 0 AS is_empty, r.top_score, r.score_spread, r.path, r.retrieval_time_ms, r.profile_version,
    r.model_version, r.policy, r.notes
FROM collections AS c
JOIN retrievals AS r ON r.collection_id = c.collection_id;
COMMENT ON VIEW analytics_queries IS 'The log of recorded searches, one a row.';
COMMENT ON COLUMN analytics_queries.condition IS 'The filter; {}: none.';
COMMENT ON COLUMN analytics_queries.actor IS 'Who asked; a pseudonym once it was made one.';
COMMENT ON COLUMN analytics_queries.hits IS 'How many items it found.';
COMMENT ON COLUMN analytics_queries.is_empty IS 'Whether it found none.';
COMMENT ON COLUMN analytics_queries.top_score IS 'The first hit''s; comparable within one profile version only.';
COMMENT ON COLUMN analytics_queries.score_spread IS 'The first score minus the fifth, or the last.';
COMMENT ON COLUMN analytics_queries.profile_version IS '0: the call brought a profile of its own.';
COMMENT ON COLUMN analytics_queries.model_version IS '0: nothing learned counted.';
COMMENT ON COLUMN analytics_queries.policy IS 'The exploration policy.';
COMMENT ON COLUMN analytics_queries.notes IS 'What the caller was told: a leg that could not run, and why.';
GRANT SELECT ON analytics_queries TO @app@, @analyst@;
COMMENT ON COLUMN analytics_profiles_row.profile_version IS '0: calls that brought a profile of their own.';
