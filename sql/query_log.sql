-- The log of searches with what an application tells of its answers: sql/analytics_queries.sql made it without.
CREATE OR REPLACE VIEW analytics_queries WITH (security_invoker = true) AS
SELECT
    c.name AS collection, r.retrieved_at, r.retrieval_id, r.query, r.condition, r.domain, r.complexity, r.actor, r.session,
    r.hits, r.hits = 0 AS is_empty, r.top_score, r.score_spread, r.path, r.retrieval_time_ms, r.profile_version,
    r.model_version, r.policy, r.notes, coalesce(r.request ->> 'origin', '') AS origin, r.generation_triggered,
    r.backtrack_count
FROM collections AS c
JOIN retrievals AS r ON r.collection_id = c.collection_id;
COMMENT ON COLUMN analytics_queries.profile_version IS '0: the call brought a profile of its own, or an application put '
    'the answer together.';
COMMENT ON COLUMN analytics_profiles_row.profile_version IS '0: calls that brought a profile of their own, and answers '
    'that an application put together, in one row.';
COMMENT ON COLUMN analytics_queries.origin IS 'What put the answer together, where that was an application; empty: a '
    'search.';
COMMENT ON COLUMN analytics_queries.generation_triggered IS 'Whether the caller had candidates made by a model.';
COMMENT ON COLUMN analytics_queries.backtrack_count IS 'How often the caller had come back for another answer.';
