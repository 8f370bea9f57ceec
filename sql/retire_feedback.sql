-- Removes the events of some items that were received before a time, and gives how many. What counts of them moves into
-- the baselines, so that the arms stay as they are.
CREATE OR REPLACE FUNCTION retire_feedback(collection bigint, item_ids text[], received_before timestamptz)
RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    decay record;
    retired bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(feedback_lock());
    PERFORM FROM arms AS arm
    WHERE arm.collection_id = collection AND arm.item_id = ANY(item_ids) AND arm.context = ''
    ORDER BY arm.item_id FOR NO KEY UPDATE;
    SELECT * INTO decay FROM learning_state(collection);

    WITH gone AS (
        DELETE FROM feedback AS event
        WHERE event.collection_id = collection AND event.item_id = ANY(item_ids)
            AND event.received_at < received_before
        RETURNING event.*
    ), kept AS (
        INSERT INTO arm_baselines AS base (
            collection_id, item_id, context, successes, failures, uses, raw_successes, last_used_at
        )
        SELECT
            collection, event.item_id, bucket.context,
            sum(event.weight * event.reward * share.weight), sum(event.weight * (1 - event.reward) * share.weight),
            count(*), count(*) FILTER (WHERE event.reward >= 0.5), max(event.occurred_at)
        FROM gone AS event
        CROSS JOIN LATERAL decay_weight(
            least(event.occurred_at, event.received_at), decay.landmark, decay.half_life_days
        ) AS share (weight)
        CROSS JOIN LATERAL unnest(event.contexts) AS bucket (context)
        WHERE event.superseded_at IS NULL AND event.weight > 0
        GROUP BY event.item_id, bucket.context
        ON CONFLICT ON CONSTRAINT arm_baselines_pkey DO UPDATE SET
            successes = base.successes + excluded.successes, failures = base.failures + excluded.failures,
            uses = base.uses + excluded.uses, raw_successes = base.raw_successes + excluded.raw_successes,
            last_used_at = greatest(base.last_used_at, excluded.last_used_at)
    )
    SELECT count(*) INTO retired FROM gone;
    RETURN retired;
END
$$;
GRANT EXECUTE ON FUNCTION retire_feedback(bigint, text[], timestamptz) TO @app@;
REVOKE ALL ON FUNCTION retire_feedback(bigint, text[], timestamptz) FROM PUBLIC;
