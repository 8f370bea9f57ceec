-- The arms of items: their sums, and the correction of wrong sums.

-- The context buckets of a retrieval, the same as those of retrieval.domain.learning.context.Context.buckets; the first
-- is for all contexts.
CREATE OR REPLACE FUNCTION context_buckets(domain text, complexity double precision, cluster integer)
RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY['']
    || CASE WHEN domain <> '' THEN ARRAY['domain=' || domain] ELSE '{}' END
    || CASE
        WHEN complexity IS NULL THEN '{}'
        WHEN complexity < 1::double precision / 3 THEN ARRAY['complexity=low']
        WHEN complexity < 2::double precision / 3 THEN ARRAY['complexity=medium']
        ELSE ARRAY['complexity=high']
    END
    || CASE WHEN cluster IS NULL THEN '{}' ELSE ARRAY['cluster=' || cluster::text] END;

-- The weight of an event in an arm: 2^((event_time - landmark) / half-life). It never changes, so events add up in any
-- order; a reader of an arm divides by the weight of the present. An event more than 400 half-lives before the landmark
-- has the weight 0: otherwise a product with small rewards and weights could underflow, which is an error.
CREATE OR REPLACE FUNCTION decay_weight(event_time timestamptz, landmark timestamptz, half_life_days double precision)
RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN extract(epoch FROM event_time - landmark)::double precision / (half_life_days * 86400) < -400 THEN 0
    ELSE power(
        2::double precision, extract(epoch FROM event_time - landmark)::double precision / (half_life_days * 86400)
    )
END;

-- The key of the tenant's advisory lock on feedback. Transactions that add events or recount arms share it, and then
-- lock the items' arms of all contexts, by collection and item. Transactions that change the weights of events (a
-- quarantine, a half-life) hold it exclusively.
CREATE OR REPLACE FUNCTION feedback_lock() RETURNS bigint
LANGUAGE sql STABLE
RETURN hashtextextended('retrieval feedback ' || current_schema(), current_tenant());

-- The decay of a collection's arms and the daily cap of an actor, or their defaults. One row, but declared as a set, so
-- that the planner inlines it.
CREATE OR REPLACE FUNCTION learning_state(collection bigint)
RETURNS TABLE (landmark timestamptz, half_life_days double precision, daily_cap integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        coalesce(state.landmark, '2026-01-01 00:00:00+00'), coalesce(state.half_life_days, 30),
        coalesce(state.daily_cap, 1000)
    FROM (SELECT) AS one LEFT JOIN learning_states AS state ON state.collection_id = learning_state.collection;
END;

-- The sums of the events of some items by context, to the landmark, as the events counted at a moment (infinity: now).
-- Removed events count by their baselines, whatever their time.
CREATE OR REPLACE FUNCTION summed_events(collection bigint, item_ids text[], moment timestamptz)
RETURNS TABLE (
    item_id text, context text, successes double precision, failures double precision, uses bigint, raw_successes bigint,
    last_used_at timestamptz
)
LANGUAGE sql STABLE AS $$
    SELECT
        part.item_id, part.context COLLATE "C", sum(part.successes), sum(part.failures), sum(part.uses)::bigint,
        sum(part.raw_successes)::bigint, max(part.last_used_at)
    FROM (
        SELECT
            event.item_id, bucket.context, event.occurred_at AS last_used_at, 1 AS uses,
            (event.reward >= 0.5)::integer AS raw_successes,
            event.weight * event.reward * share.weight AS successes,
            event.weight * (1 - event.reward) * share.weight AS failures
        FROM learning_state(collection) AS decay
        CROSS JOIN feedback AS event
        CROSS JOIN LATERAL decay_weight(
            least(event.occurred_at, event.received_at), decay.landmark, decay.half_life_days
        ) AS share (weight)
        CROSS JOIN LATERAL unnest(event.contexts) AS bucket (context)
        WHERE event.collection_id = collection AND event.item_id = ANY(item_ids) AND event.weight > 0
            AND event.received_at <= moment AND (event.superseded_at IS NULL OR event.superseded_at > moment)
        UNION ALL
        SELECT
            base.item_id, base.context, base.last_used_at, base.uses, base.raw_successes, base.successes, base.failures
        FROM arm_baselines AS base
        WHERE base.collection_id = collection AND base.item_id = ANY(item_ids)
    ) AS part
    GROUP BY part.item_id, part.context COLLATE "C"
$$;

-- The arms of some items and the sums of their events: is_off if raw counts differ, or if decayed sums differ by more
-- than the tolerance, relative to the arm.
CREATE OR REPLACE FUNCTION compared_arms(collection bigint, item_ids text[], tolerance double precision)
RETURNS TABLE (
    item_id text, context text, successes double precision, failures double precision, uses bigint, raw_successes bigint,
    last_used_at timestamptz, is_off boolean
)
LANGUAGE sql STABLE AS $$
    SELECT
        coalesce(known.item_id, arm.item_id), coalesce(known.context, arm.context),
        coalesce(known.successes, 0), coalesce(known.failures, 0),
        coalesce(known.uses, 0), coalesce(known.raw_successes, 0), known.last_used_at,
        arm.item_id IS NULL
        OR (coalesce(known.uses, 0), coalesce(known.raw_successes, 0), known.last_used_at)
            IS DISTINCT FROM (arm.uses, arm.raw_successes, arm.last_used_at)
        OR greatest(abs(arm.successes - coalesce(known.successes, 0)), abs(arm.failures - coalesce(known.failures, 0)))
            > tolerance * (coalesce(known.successes, 0) + coalesce(known.failures, 0))
    FROM summed_events(collection, item_ids, 'infinity') AS known
    FULL JOIN (
        SELECT one.* FROM arms AS one WHERE one.collection_id = collection AND one.item_id = ANY(item_ids)
    ) AS arm ON arm.item_id = known.item_id AND arm.context = known.context
$$;

-- Recomputes the arms of some items from their events, and corrects those that are off (compared_arms). Returns the
-- number of arms, and of corrected arms.
CREATE OR REPLACE FUNCTION recount_arms(collection bigint, item_ids text[], tolerance double precision)
RETURNS TABLE (arms bigint, mended bigint)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(feedback_lock());
    INSERT INTO arms AS arm (collection_id, item_id, context, successes, failures)
    SELECT DISTINCT collection, wanted.item_id COLLATE "C", '', 0::double precision, 0::double precision
    FROM unnest(item_ids) AS wanted (item_id) ORDER BY 2
    ON CONFLICT ON CONSTRAINT arms_pkey DO UPDATE SET uses = arm.uses WHERE false;

    RETURN QUERY
    WITH compared AS MATERIALIZED (
        SELECT * FROM compared_arms(collection, item_ids, tolerance)
    ), put AS (
        INSERT INTO arms AS arm (
            collection_id, item_id, context, successes, failures, uses, raw_successes, last_used_at
        )
        SELECT
            collection, one.item_id, one.context, one.successes, one.failures, one.uses, one.raw_successes,
            one.last_used_at
        FROM compared AS one WHERE one.is_off ORDER BY one.item_id, one.context
        ON CONFLICT ON CONSTRAINT arms_pkey DO UPDATE SET
            successes = excluded.successes, failures = excluded.failures, uses = excluded.uses,
            raw_successes = excluded.raw_successes, last_used_at = excluded.last_used_at
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM compared), (SELECT count(*) FROM put);
END
$$;

-- Excludes an actor's past and future feedback in all collections of the tenant, or includes it again. Returns the
-- number of changed events.
CREATE OR REPLACE FUNCTION quarantine_actor(wanted text, why text, is_held boolean) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    mine bigint[] := ARRAY(SELECT owner.collection_id FROM collections AS owner WHERE owner.tenant_id = current_tenant());
    changed bigint;
    items_changed jsonb;
BEGIN
    PERFORM pg_advisory_xact_lock(feedback_lock());
    IF is_held THEN
        INSERT INTO quarantines AS held (tenant_id, actor, reason) VALUES (current_tenant(), wanted, why)
        ON CONFLICT ON CONSTRAINT quarantines_pkey DO UPDATE SET reason = excluded.reason;
    ELSE
        DELETE FROM quarantines AS held WHERE held.tenant_id = current_tenant() AND held.actor = wanted;
    END IF;

    WITH events AS (
        UPDATE feedback AS event SET
            weight = CASE WHEN is_held THEN 0 ELSE event.given_weight END,
            discounted = CASE WHEN is_held THEN 'quarantined' ELSE '' END
        WHERE event.collection_id = ANY(mine) AND event.actor = wanted AND event.actor <> ''
            AND event.discounted = CASE WHEN is_held THEN '' ELSE 'quarantined' END
        RETURNING event.collection_id, event.item_id
    ), by_collection AS (
        SELECT event.collection_id, count(*) AS events, jsonb_agg(DISTINCT event.item_id) AS item_ids
        FROM events AS event GROUP BY event.collection_id
    )
    SELECT coalesce(sum(one.events), 0), jsonb_object_agg(one.collection_id, one.item_ids)
    INTO changed, items_changed FROM by_collection AS one;

    PERFORM recount_arms(one.collection_id::bigint, ARRAY(SELECT jsonb_array_elements_text(one.item_ids)), 0)
    FROM jsonb_each(items_changed) AS one (collection_id, item_ids);
    RETURN changed;
END
$$;

-- Changes the half-life or the landmark of a collection's arms, and recomputes them from their events. The baselines of
-- removed events keep their present weight, because the times of these events are unknown.
CREATE OR REPLACE FUNCTION set_decay(
    collection bigint, new_half_life_days double precision, new_landmark timestamptz, moment timestamptz
)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    decay learning_states;
    shift double precision;
    item_ids text[];
BEGIN
    PERFORM pg_advisory_xact_lock(feedback_lock());
    INSERT INTO learning_states AS state (collection_id) VALUES (collection)
    ON CONFLICT ON CONSTRAINT learning_states_pkey DO NOTHING;
    SELECT * INTO decay FROM learning_states AS state WHERE state.collection_id = collection FOR UPDATE;
    UPDATE learning_states AS state SET half_life_days = new_half_life_days, landmark = new_landmark
    WHERE state.collection_id = collection;

    shift := extract(epoch FROM moment - new_landmark)::double precision / (new_half_life_days * 86400)
        - extract(epoch FROM moment - decay.landmark)::double precision / (decay.half_life_days * 86400);
    UPDATE arm_baselines AS base SET
        successes = CASE WHEN base.successes > 0 AND shift > -1000 AND ln(base.successes) / ln(2) + shift > -400
            THEN base.successes * power(2::double precision, shift) ELSE 0 END,
        failures = CASE WHEN base.failures > 0 AND shift > -1000 AND ln(base.failures) / ln(2) + shift > -400
            THEN base.failures * power(2::double precision, shift) ELSE 0 END
    WHERE base.collection_id = collection;
    item_ids := ARRAY(SELECT DISTINCT arm.item_id FROM arms AS arm WHERE arm.collection_id = collection);
    PERFORM recount_arms(collection, item_ids, 0);
END
$$;

-- Removes the events of some items that were received before a time, and returns their number. Their sums move to the
-- baselines, so that the arms do not change.
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

GRANT EXECUTE ON FUNCTION context_buckets, feedback_lock, summed_events, compared_arms, recount_arms, quarantine_actor, set_decay,
    retire_feedback TO @app@;
GRANT EXECUTE ON FUNCTION decay_weight TO @app@, @analyst@;
GRANT EXECUTE ON FUNCTION learning_state TO @app@, @definer@, @analyst@;
