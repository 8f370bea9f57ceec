-- Computes the arms of some items of a collection from their events, and mends those that are off: whose raw counts
-- differ, or whose decayed sums differ by more than the tolerance, relative to the arm. Gives how many there are, and
-- how many were off. Events that were removed count by their baselines.
CREATE OR REPLACE FUNCTION recount_arms(collection bigint, item_ids text[], tolerance double precision)
RETURNS TABLE (arms bigint, mended bigint)
LANGUAGE plpgsql AS $$
DECLARE
    decay record;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(feedback_lock());
    INSERT INTO arms AS arm (collection_id, item_id, context, successes, failures)
    SELECT DISTINCT collection, wanted.item_id COLLATE "C", '', 0::double precision, 0::double precision
    FROM unnest(item_ids) AS wanted (item_id) ORDER BY 2
    ON CONFLICT ON CONSTRAINT arms_pkey DO UPDATE SET uses = arm.uses WHERE false;
    SELECT * INTO decay FROM learning_state(collection);

    RETURN QUERY
    WITH parts AS (
        SELECT
            event.item_id, bucket.context, event.occurred_at AS last_used_at, 1 AS uses,
            (event.reward >= 0.5)::integer AS raw_successes,
            event.weight * event.reward * share.weight AS successes,
            event.weight * (1 - event.reward) * share.weight AS failures
        FROM feedback AS event
        CROSS JOIN LATERAL decay_weight(
            least(event.occurred_at, event.received_at), decay.landmark, decay.half_life_days
        ) AS share (weight)
        CROSS JOIN LATERAL unnest(event.contexts) AS bucket (context)
        WHERE event.collection_id = collection AND event.item_id = ANY(item_ids)
            AND event.superseded_at IS NULL AND event.weight > 0
        UNION ALL
        SELECT
            base.item_id, base.context, base.last_used_at, base.uses, base.raw_successes, base.successes, base.failures
        FROM arm_baselines AS base
        WHERE base.collection_id = collection AND base.item_id = ANY(item_ids)
    ), compared AS (
        SELECT
            item_id, context, coalesce(known.successes, 0) AS successes, coalesce(known.failures, 0) AS failures,
            coalesce(known.uses, 0) AS uses, coalesce(known.raw_successes, 0) AS raw_successes, known.last_used_at,
            (coalesce(known.uses, 0), coalesce(known.raw_successes, 0), known.last_used_at)
                IS DISTINCT FROM (arm.uses, arm.raw_successes, arm.last_used_at)
            OR greatest(abs(arm.successes - coalesce(known.successes, 0)), abs(arm.failures - coalesce(known.failures, 0)))
                > tolerance * (coalesce(known.successes, 0) + coalesce(known.failures, 0)) AS is_off
        FROM (
            SELECT
                part.item_id, part.context, sum(part.successes) AS successes, sum(part.failures) AS failures,
                sum(part.uses)::bigint AS uses, sum(part.raw_successes)::bigint AS raw_successes,
                max(part.last_used_at) AS last_used_at
            FROM parts AS part GROUP BY part.item_id, part.context
        ) AS known
        FULL JOIN (
            SELECT arm.* FROM arms AS arm WHERE arm.collection_id = collection AND arm.item_id = ANY(item_ids)
        ) AS arm USING (item_id, context)
    ), put AS (
        INSERT INTO arms AS arm (
            collection_id, item_id, context, successes, failures, uses, raw_successes, last_used_at
        )
        SELECT collection, item_id, context, successes, failures, uses, raw_successes, last_used_at
        FROM compared WHERE is_off ORDER BY item_id, context
        ON CONFLICT ON CONSTRAINT arms_pkey DO UPDATE SET
            successes = excluded.successes, failures = excluded.failures, uses = excluded.uses,
            raw_successes = excluded.raw_successes, last_used_at = excluded.last_used_at
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM compared), (SELECT count(*) FROM put);
END
$$;
GRANT EXECUTE ON FUNCTION recount_arms(bigint, text[], double precision) TO @app@;
REVOKE ALL ON FUNCTION recount_arms(bigint, text[], double precision) FROM PUBLIC;
