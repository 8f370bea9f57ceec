-- Stores feedback.

-- Sets the weight to 0 of those added events that exceed a daily cap: of their actor, or of the API key that sent them,
-- on their item, counted in the order of the call's keys. It locks the items' arms, so that a key's cap is exact. Only
-- record_feedback calls it.
CREATE OR REPLACE FUNCTION within_caps(added added_feedback[], keys uuid[], sent_by text) RETURNS added_feedback[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    places jsonb := (
        SELECT jsonb_object_agg(own.key, own.place ORDER BY own.place DESC)
        FROM unnest(keys) WITH ORDINALITY AS own (key, place)
    );
BEGIN
    IF sent_by <> '' THEN
        INSERT INTO arms AS arm (collection_id, item_id, context, successes, failures)
        SELECT DISTINCT event.collection_id, event.item_id, '', 0::double precision, 0::double precision
        FROM unnest(added) AS event ORDER BY 1, 2
        ON CONFLICT ON CONSTRAINT arms_pkey DO UPDATE SET uses = arm.uses WHERE false;
    END IF;

    WITH counted AS (
        -- Today's events are counted once for all events of an actor, or of a key on an item.
        SELECT
            one.*, one.of_actor - one.all_of_actor + max((
                SELECT count(*) FROM (
                    SELECT FROM feedback AS said
                    WHERE one.of_actor = 1 AND (said.actor, said.collection_id) <= (one.actor, one.collection_id)
                        AND (said.actor, said.collection_id, said.received_at)
                            >= (one.actor, one.collection_id, date_trunc('day', now(), 'UTC')) AND said.actor <> ''
                    LIMIT one.daily_cap + one.all_of_actor
                ) AS today
            )) OVER (PARTITION BY one.collection_id, one.actor) AS nth_of_actor,
            one.of_item - one.all_of_item + max((
                SELECT count(*) FROM (
                    SELECT FROM feedback AS sent
                    WHERE one.of_item = 1 AND (sent.key_id, sent.collection_id, sent.item_id)
                            <= (sent_by, one.collection_id, one.item_id)
                        AND (sent.key_id, sent.collection_id, sent.item_id, sent.received_at) >= (
                            sent_by, one.collection_id, one.item_id, date_trunc('day', now(), 'UTC')
                        ) AND sent.key_id <> ''
                    LIMIT one.key_cap + one.all_of_item
                ) AS today
            )) OVER (PARTITION BY one.collection_id, one.item_id) AS nth_of_item
        FROM (
            SELECT
                event.*, state.daily_cap, allowed.key_cap,
                row_number() OVER (PARTITION BY event.collection_id, event.actor ORDER BY place) AS of_actor,
                count(*) OVER (PARTITION BY event.collection_id, event.actor) AS all_of_actor,
                row_number() OVER (PARTITION BY event.collection_id, event.item_id ORDER BY place) AS of_item,
                count(*) OVER (PARTITION BY event.collection_id, event.item_id) AS all_of_item
            FROM unnest(added) AS event
            CROSS JOIN LATERAL (
                SELECT (places ->> own.feedback_key::text)::integer AS place
                FROM feedback AS own WHERE own.ctid = event.row_id
            ) AS given
            CROSS JOIN LATERAL learning_state(event.collection_id) AS state
            CROSS JOIN (
                SELECT coalesce(max(key.feedback_cap), 0) AS key_cap FROM api_keys AS key
                WHERE key.key_id = sent_by AND key.tenant_id = current_tenant()
            ) AS allowed
        ) AS one
    ), judged AS MATERIALIZED (
        SELECT one.*, CASE
            WHEN one.discounted = 'not shown' THEN one.discounted
            WHEN sent_by <> '' AND one.nth_of_item > one.key_cap THEN 'over the cap of the key'
            WHEN one.actor <> '' AND one.nth_of_actor > one.daily_cap THEN 'over the daily cap'
            ELSE one.discounted
        END AS reason
        FROM counted AS one
    ), changed AS (
        UPDATE feedback AS event SET weight = 0, discounted = one.reason
        FROM judged AS one
        WHERE event.ctid = one.row_id AND one.reason <> one.discounted
    )
    SELECT array_agg(ROW(
        one.row_id, one.collection_id, one.item_id, one.subject, one.actor, one.reward,
        CASE WHEN one.reason = '' THEN one.weight ELSE 0 END, one.contexts, one.occurred_at, one.reason, one.decay
    )::added_feedback)
    INTO added FROM judged AS one;
    RETURN added;
END
$$;
GRANT EXECUTE ON FUNCTION within_caps(added_feedback[], uuid[], text) TO @definer@;

-- Stores events, given as an array for each column (NULL: empty in all events), and adds them to the arms of all their
-- context buckets. Returns the number of recorded events, of repeated ones (by their key), and of those that replaced a
-- stored verdict of their subject; the reasons why recorded events do not count (have the weight 0); and the places,
-- from 1, of refused events with the reasons. If one is refused, nothing is stored, unless skip_refused.
-- It stores the events in order of their primary key, and then locks the arms in order of theirs, so that writers
-- cannot deadlock. A writer of an item's arms holds its arm of all contexts, so that what it reads about the item after
-- that (by READ COMMITTED) cannot change: only the latest verdict of a subject counts, by event time, then by key.
-- Its plans are kept, and may be made while the tables are empty, when all indexes have the same cost. So the
-- statements leave the planner no choice but look-ups by key.
CREATE OR REPLACE FUNCTION record_feedback(
    owners text[], item_ids text[], feedback_keys uuid[], subjects uuid[], retrieval_ids uuid[],
    retrieval_times timestamptz[], actors text[], sessions text[], kinds text[], rewards double precision[],
    weights double precision[], domains text[], complexities double precision[], notes text[], event_times timestamptz[],
    retrieved_from timestamptz, retrieved_to timestamptz, sent_by text, skip_refused boolean,
    OUT recorded integer, OUT repeated integer, OUT superseding integer, OUT discounted text[],
    OUT refused integer[], OUT problems text[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_material = off AS $$
#variable_conflict use_column
DECLARE
    held text;
    clusters integer[];
    shown boolean[];
    added added_feedback[];
    is_crowded boolean;  -- whether an actor may have exceeded the daily cap
    emptied_collections bigint[];
    emptied_items text[];
BEGIN
    -- An assignment, because it is cheaper than a statement.
    held := pg_advisory_xact_lock_shared(feedback_lock())::text;

    -- The collection and the context of an impression come from its search.
    IF retrieved_from IS NOT NULL THEN
        SELECT
            array_agg(coalesce(past.owner, owners[place]) ORDER BY place),
            array_agg(coalesce(past.domain, domains[place]) ORDER BY place),
            array_agg(coalesce(past.complexity, complexities[place]) ORDER BY place),
            array_agg(past.cluster ORDER BY place), array_agg(past.is_shown ORDER BY place)
        INTO owners, domains, complexities, clusters, shown
        FROM generate_subscripts(item_ids, 1) AS place
        LEFT JOIN LATERAL (
            SELECT
                (SELECT own.name FROM collections AS own WHERE own.collection_id = one.collection_id) AS owner,
                one.domain, one.complexity, one.cluster, item_ids[place] = ANY (one.shown_items) AS is_shown
            FROM retrievals AS one
            WHERE one.collection_id = ANY(ARRAY(
                SELECT own.collection_id FROM collections AS own WHERE own.tenant_id = current_tenant()
            )) AND one.retrieval_id = retrieval_ids[place] AND one.retrieved_at = retrieval_times[place]
                AND one.retrieved_at BETWEEN retrieved_from AND retrieved_to
            LIMIT 1
        ) AS past ON true;
    END IF;

    WITH collection AS MATERIALIZED (
        SELECT one.collection_id, one.name, state.*
        FROM collections AS one CROSS JOIN LATERAL learning_state(one.collection_id) AS state
        WHERE one.tenant_id = current_tenant() AND one.name = ANY(owners)
    ), given AS MATERIALIZED (
        SELECT
            place, owner.collection_id,
            CASE
                WHEN owner.collection_id IS NULL THEN
                    CASE WHEN retrieval_ids[place] IS NULL THEN 'unknown collection' ELSE 'unknown retrieval' END
                WHEN shown[place] IS NOT TRUE AND (
                    SELECT true FROM items AS item
                    WHERE item.collection_id = owner.collection_id AND item.item_id = item_ids[place] LIMIT 1
                ) IS NULL THEN 'unknown item'
                WHEN least(event_times[place], now()) > owner.landmark + 1000 * owner.half_life_days * interval '1 day'
                    THEN 'too far from the landmark'
            END AS problem,
            CASE
                WHEN retrieval_ids[place] IS NOT NULL AND shown[place] IS NOT TRUE THEN 'not shown'
                WHEN actors[place] <> '' AND (
                    SELECT true FROM quarantines AS held
                    WHERE held.tenant_id = current_tenant() AND held.actor = actors[place] COLLATE "C" LIMIT 1
                ) THEN 'quarantined'
                ELSE ''
            END AS reason
        FROM generate_subscripts(item_ids, 1) AS place
        LEFT JOIN collection AS owner ON owner.name = owners[place] COLLATE "C"
    ), stored AS (
        INSERT INTO feedback (
            collection_id, item_id, feedback_key, subject, retrieval_id, retrieved_at, actor, session, kind, reward,
            weight, given_weight, contexts, note, occurred_at, discounted, key_id
        )
        SELECT
            collection_id, item_ids[place], feedback_keys[place], subjects[place], retrieval_ids[place],
            retrieval_times[place], coalesce(actors[place], ''), coalesce(sessions[place], ''), kinds[place],
            coalesce(rewards[place], 0), CASE WHEN reason = '' THEN coalesce(weights[place], 0) ELSE 0 END,
            coalesce(weights[place], 0),
            context_buckets(coalesce(domains[place], ''), complexities[place], clusters[place]),
            coalesce(notes[place], ''), event_times[place], reason, sent_by
        FROM given
        WHERE problem IS NULL AND (skip_refused OR NOT EXISTS (SELECT FROM given AS bad WHERE bad.problem IS NOT NULL))
        ORDER BY collection_id, item_ids[place] COLLATE "C", feedback_keys[place], place
        ON CONFLICT DO NOTHING
        RETURNING ctid, collection_id, item_id, subject, actor, reward, weight, contexts, occurred_at, discounted
    )
    SELECT
        ARRAY(
            SELECT ROW(stored.*, decay_weight(
                least(stored.occurred_at, now()), owner.landmark, owner.half_life_days
            ))::added_feedback
            FROM stored JOIN collection AS owner ON owner.collection_id = stored.collection_id
        ), EXISTS (
            SELECT
            FROM (
                SELECT one.collection_id, one.actor, count(*) AS events
                FROM stored AS one WHERE one.actor <> '' GROUP BY one.collection_id, one.actor
            ) AS new
            JOIN collection AS owner ON owner.collection_id = new.collection_id
            WHERE new.events > owner.daily_cap OR EXISTS (
                SELECT FROM feedback AS said
                WHERE (said.actor, said.collection_id) <= (new.actor, new.collection_id)
                    AND (said.actor, said.collection_id, said.received_at)
                        >= (new.actor, new.collection_id, date_trunc('day', now(), 'UTC')) AND said.actor <> ''
                OFFSET greatest(owner.daily_cap - new.events, 0)
            )
        ),
        ARRAY(SELECT one.discounted FROM stored AS one WHERE one.discounted <> ''),
        ARRAY(SELECT one.place FROM given AS one WHERE one.problem IS NOT NULL ORDER BY one.place),
        ARRAY(SELECT one.problem FROM given AS one WHERE one.problem IS NOT NULL ORDER BY one.place)
    INTO added, is_crowded, discounted, refused, problems;

    recorded := cardinality(added);
    repeated := cardinality(item_ids) - cardinality(refused) - recorded;
    superseding := 0;
    IF recorded = 0 THEN
        RETURN;
    END IF;
    IF is_crowded OR sent_by <> '' THEN
        added := within_caps(added, feedback_keys, sent_by);
        discounted := ARRAY(SELECT event.discounted FROM unnest(added) AS event WHERE event.discounted <> '');
    END IF;

    -- An event that does not count locks the item too.
    INSERT INTO arms AS arm (collection_id, item_id, context, successes, failures, uses, raw_successes, last_used_at)
    SELECT
        event.collection_id, event.item_id, bucket.context, sum(event.weight * event.decay * event.reward),
        sum(event.weight * event.decay * (1 - event.reward)), count(*) FILTER (WHERE event.weight > 0),
        count(*) FILTER (WHERE event.weight > 0 AND event.reward >= 0.5),
        max(event.occurred_at) FILTER (WHERE event.weight > 0)
    FROM unnest(added) AS event
    CROSS JOIN LATERAL unnest(
        CASE WHEN event.weight > 0 THEN event.contexts ELSE event.contexts[:1] END
    ) AS bucket (context)
    GROUP BY event.collection_id, event.item_id, bucket.context
    ORDER BY event.collection_id, event.item_id, bucket.context
    ON CONFLICT ON CONSTRAINT arms_pkey DO UPDATE SET
        successes = arm.successes + excluded.successes, failures = arm.failures + excluded.failures,
        uses = arm.uses + excluded.uses, raw_successes = arm.raw_successes + excluded.raw_successes,
        last_used_at = greatest(arm.last_used_at, excluded.last_used_at);

    -- Only the latest verdict of a subject counts: earlier ones are subtracted. If the latest has no weight, or not all
    -- of the contexts, the last use of an arm may be that of an earlier event, so the item's arms are counted again.
    IF subjects IS NULL OR NOT EXISTS (
        SELECT
        FROM unnest(added) AS event
        CROSS JOIN LATERAL (
            SELECT FROM feedback AS said
            WHERE said.collection_id = event.collection_id AND said.item_id = event.item_id
                AND said.subject = event.subject AND said.superseded_at IS NULL
            OFFSET 1
        ) AS rival
    )
    THEN
        RETURN;
    END IF;
    WITH lost AS MATERIALIZED (
        SELECT rival.*
        FROM (
            SELECT DISTINCT one.collection_id, one.item_id, one.subject
            FROM unnest(added) AS one WHERE one.subject IS NOT NULL
        ) AS event
        CROSS JOIN LATERAL (
            SELECT
                said.*, said.ctid AS row_id, first_value(said.weight > 0) OVER latest
                    AND first_value(said.contexts) OVER latest @> said.contexts AS latest_replaces
            FROM feedback AS said
            WHERE said.collection_id = event.collection_id AND said.item_id = event.item_id
                AND said.subject = event.subject AND said.superseded_at IS NULL
            WINDOW latest AS (ORDER BY said.occurred_at DESC, said.feedback_key DESC)
            ORDER BY said.occurred_at DESC, said.feedback_key DESC
            OFFSET 1
        ) AS rival
    ), gone AS (
        UPDATE feedback SET superseded_at = now() WHERE ctid = ANY(ARRAY(SELECT lost.row_id FROM lost))
    ), taken AS (
        INSERT INTO arms AS arm (collection_id, item_id, context, successes, failures, uses, raw_successes)
        SELECT
            event.collection_id, event.item_id, bucket.context, -sum(event.share * event.reward),
            -sum(event.share * (1 - event.reward)), -count(*), -count(*) FILTER (WHERE event.reward >= 0.5)
        FROM (
            SELECT lost.*, lost.weight * decay_weight(
                least(lost.occurred_at, lost.received_at), state.landmark, state.half_life_days
            ) AS share
            FROM lost CROSS JOIN LATERAL learning_state(lost.collection_id) AS state
            WHERE lost.weight > 0 AND lost.latest_replaces
            OFFSET 0
        ) AS event
        CROSS JOIN LATERAL unnest(event.contexts) AS bucket (context)
        GROUP BY event.collection_id, event.item_id, bucket.context
        ON CONFLICT ON CONSTRAINT arms_pkey DO UPDATE SET
            successes = CASE WHEN arm.uses + excluded.uses = 0 THEN 0 ELSE arm.successes + excluded.successes END,
            failures = CASE WHEN arm.uses + excluded.uses = 0 THEN 0 ELSE arm.failures + excluded.failures END,
            uses = arm.uses + excluded.uses, raw_successes = arm.raw_successes + excluded.raw_successes
    )
    SELECT
        count(*) FILTER (WHERE lost.received_at <> now()),
        array_agg(lost.collection_id) FILTER (WHERE lost.weight > 0 AND NOT lost.latest_replaces),
        array_agg(lost.item_id) FILTER (WHERE lost.weight > 0 AND NOT lost.latest_replaces)
    INTO superseding, emptied_collections, emptied_items
    FROM lost;
    IF emptied_items IS NOT NULL THEN
        PERFORM recount_arms(one.collection_id, array_agg(DISTINCT one.item_id), 0)
        FROM unnest(emptied_collections, emptied_items) AS one (collection_id, item_id)
        GROUP BY one.collection_id;
    END IF;
END
$$;
ALTER FUNCTION record_feedback OWNER TO @definer@;
GRANT INSERT, UPDATE ON feedback, arms TO @definer@;
CREATE POLICY feedback_definer_inserts ON feedback FOR INSERT TO @definer@ WITH CHECK (true);
CREATE POLICY feedback_definer_updates ON feedback FOR UPDATE TO @definer@ USING (true);
CREATE POLICY arms_definer_inserts ON arms FOR INSERT TO @definer@ WITH CHECK (true);
CREATE POLICY arms_definer_updates ON arms FOR UPDATE TO @definer@ USING (true);
GRANT EXECUTE ON FUNCTION feedback_lock(), context_buckets(text, double precision, integer),
    decay_weight(timestamptz, timestamptz, double precision), summed_events(bigint, text[], timestamptz),
    compared_arms(bigint, text[], double precision), recount_arms(bigint, text[], double precision) TO @definer@;

GRANT EXECUTE ON FUNCTION record_feedback TO @app@;
