-- Searches since a moment that showed two profiles' hits mixed (team draft), by the profiles' names in either order, and
-- what each profile's hits earned: the sum of their rewards, an impression's reward being the mean of the live feedback
-- for it, by weight. Both are NULL where nobody said anything. It has no rights of its own.
CREATE OR REPLACE FUNCTION interleaved_results(
    collection bigint, since timestamptz, first_name text, second_name text
)
RETURNS TABLE (retrieval_id uuid, first_earned double precision, second_earned double precision)
LANGUAGE sql STABLE AS $$
    WITH search AS MATERIALIZED (
        SELECT asked.retrieval_id, asked.request->'interleaved'->>'a' = first_name AS is_in_order
        FROM retrievals AS asked
        WHERE asked.collection_id = collection AND asked.retrieved_at >= since AND (
            (asked.request->'interleaved'->>'a' = first_name AND asked.request->'interleaved'->>'b' = second_name)
            OR (asked.request->'interleaved'->>'a' = second_name AND asked.request->'interleaved'->>'b' = first_name)
        )
    ),
    impression AS (
        SELECT
            search.retrieval_id, (shown.signals->>'team' = 'a') = search.is_in_order AS is_firsts,
            sum(said.weight * said.reward) / sum(said.weight) AS reward
        FROM search
        JOIN impressions AS shown ON shown.collection_id = collection AND shown.retrieval_id = search.retrieval_id
            AND shown.retrieved_at >= since
        LEFT JOIN feedback AS said ON said.collection_id = collection AND said.retrieval_id = shown.retrieval_id
            AND said.item_id = shown.item_id AND said.superseded_at IS NULL AND said.weight > 0
        GROUP BY search.retrieval_id, shown.item_id, is_firsts
    )
    SELECT
        impression.retrieval_id,
        CASE WHEN count(impression.reward) > 0
            THEN coalesce(sum(impression.reward) FILTER (WHERE impression.is_firsts), 0) END,
        CASE WHEN count(impression.reward) > 0
            THEN coalesce(sum(impression.reward) FILTER (WHERE NOT impression.is_firsts), 0) END
    FROM impression
    GROUP BY impression.retrieval_id
$$;

REVOKE ALL ON FUNCTION interleaved_results(bigint, timestamptz, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION interleaved_results(bigint, timestamptz, text, text) TO @app@;
