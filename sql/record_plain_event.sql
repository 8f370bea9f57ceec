-- Stores one event that there is nothing special about, and adds it to its arms: gives what became of it, recorded,
-- superseding (the earlier verdict of its subject is taken out), or repeated. Gives nothing when the event is refused,
-- discounted or late, or its rival does not count: then it has only taken hold of the item. For record_feedback alone,
-- which does what is left over, and is saved most of its work.
CREATE OR REPLACE FUNCTION record_plain_event(event jsonb, retrieved timestamptz) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    own bigint;
    buckets text[];
    start_of_decay timestamptz;
    days double precision;
    cap integer;
    is_plain boolean;
    wanted text := event->>'item_id';
    who text := event->>'actor';
    by_key text := coalesce(event->>'key_id', '');
    worth double precision := event->>'reward';
    counted double precision := event->>'weight';
    moment timestamptz := event->>'occurred_at';
    aged_from timestamptz := least(moment, now());
    share double precision;
    former_share double precision;
    rival feedback;
BEGIN
    IF event->>'retrieval_id' IS NULL THEN
        SELECT
            owner.collection_id, EXISTS (
                SELECT FROM items AS item WHERE item.collection_id = owner.collection_id AND item.item_id = wanted
            )
        INTO own, is_plain
        FROM collections AS owner
        WHERE owner.tenant_id = current_tenant() AND owner.name = (event->>'collection') COLLATE "C";
        buckets := ARRAY(SELECT jsonb_array_elements_text(event->'contexts'));
    ELSE
        SELECT
            past.collection_id, context_buckets(past.domain, past.complexity, past.cluster), EXISTS (
                SELECT FROM impressions AS shown
                WHERE shown.collection_id = past.collection_id AND shown.retrieval_id = past.retrieval_id
                    AND shown.item_id = wanted AND shown.retrieved_at = retrieved
            )
        INTO own, buckets, is_plain
        FROM retrievals AS past
        WHERE past.collection_id = ANY(ARRAY(
            SELECT owner.collection_id FROM collections AS owner WHERE owner.tenant_id = current_tenant()
        )) AND past.retrieval_id = (event->>'retrieval_id')::uuid AND past.retrieved_at = retrieved;
    END IF;
    IF own IS NULL OR NOT is_plain OR counted = 0 THEN
        RETURN NULL;
    END IF;
    SELECT state.landmark, state.half_life_days, state.daily_cap INTO start_of_decay, days, cap
    FROM learning_state(own) AS state;
    IF extract(epoch FROM aged_from - start_of_decay) > 1000 * 86400 * days THEN
        RETURN NULL;
    END IF;

    PERFORM FROM arms AS arm
    WHERE arm.collection_id = own AND arm.item_id = wanted AND arm.context = '' FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO arms AS arm (collection_id, item_id, context, successes, failures) VALUES (own, wanted, '', 0, 0)
        ON CONFLICT ON CONSTRAINT arms_pkey DO UPDATE SET uses = arm.uses WHERE false;
    END IF;
    IF who <> '' THEN
        SELECT count(*) < cap AND NOT EXISTS (
            SELECT FROM quarantines AS held
            WHERE held.actor = who COLLATE "C" AND held.collection_id = ANY(ARRAY(
                SELECT owner.collection_id FROM collections AS owner WHERE owner.tenant_id = current_tenant()
            ))
        ) INTO is_plain
        FROM (
            SELECT FROM feedback AS said
            WHERE said.collection_id = own AND said.actor = who AND said.actor <> ''
                AND said.received_at >= date_trunc('day', now(), 'UTC')
            LIMIT cap
        ) AS today;
        IF NOT is_plain THEN
            RETURN NULL;
        END IF;
    END IF;
    IF by_key <> '' THEN
        SELECT coalesce(max(key.feedback_cap), 0) INTO cap FROM api_keys AS key
        WHERE key.key_id = by_key AND key.tenant_id = current_tenant();
        SELECT count(*) < cap INTO is_plain
        FROM (
            SELECT FROM feedback AS sent
            WHERE sent.key_id = by_key AND sent.collection_id = own AND sent.item_id = wanted AND sent.key_id <> ''
                AND sent.received_at >= date_trunc('day', now(), 'UTC')
            LIMIT cap
        ) AS today;
        IF NOT is_plain THEN
            RETURN NULL;
        END IF;
    END IF;

    LOOP
        INSERT INTO feedback (
            collection_id, item_id, feedback_key, subject, retrieval_id, retrieved_at, actor, session, kind, reward, weight,
            given_weight, contexts, note, occurred_at, received_at, key_id
        )
        VALUES (
            own, wanted, (event->>'feedback_key')::uuid, (event->>'subject')::uuid, (event->>'retrieval_id')::uuid,
            retrieved, who, event->>'session', event->>'kind', worth, counted, counted, buckets, event->>'note', moment,
            now(), by_key
        )
        ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        SELECT * INTO rival FROM feedback AS stored
        WHERE stored.collection_id = own AND stored.item_id = wanted
            AND stored.subject = (event->>'subject')::uuid AND stored.superseded_at IS NULL;
        IF EXISTS (
            SELECT FROM feedback AS stored
            WHERE stored.collection_id = own AND stored.item_id = wanted
                AND stored.feedback_key = (event->>'feedback_key')::uuid
        ) THEN
            RETURN 'repeated';
        END IF;
        IF rival.weight = 0
            OR (rival.occurred_at, rival.feedback_key) > (moment, (event->>'feedback_key')::uuid) THEN
            RETURN NULL;
        END IF;
        UPDATE feedback AS stored SET superseded_at = now()
        WHERE stored.collection_id = own AND stored.item_id = wanted AND stored.feedback_key = rival.feedback_key;
        IF NOT FOUND THEN
            rival := NULL;
        END IF;
    END LOOP;

    share := counted * decay_weight(aged_from, start_of_decay, days);
    IF rival.weight IS NOT NULL THEN
        former_share := rival.weight
            * decay_weight(least(rival.occurred_at, rival.received_at), start_of_decay, days);
    END IF;
    -- A rival counted in the same buckets: they are part of its subject, or its retrieval's.
    INSERT INTO arms AS arm (
        collection_id, item_id, context, successes, failures, uses, raw_successes, last_used_at
    )
    SELECT
        own, wanted, bucket.context,
        worth * share - coalesce(rival.reward * former_share, 0),
        (1 - worth) * share - coalesce((1 - rival.reward) * former_share, 0),
        (rival.weight IS NULL)::integer,
        (worth >= 0.5)::integer - coalesce((rival.reward >= 0.5)::integer, 0), moment
    FROM unnest(buckets) AS bucket (context) ORDER BY bucket.context
    ON CONFLICT ON CONSTRAINT arms_pkey DO UPDATE SET
        successes = arm.successes + excluded.successes, failures = arm.failures + excluded.failures,
        uses = arm.uses + excluded.uses, raw_successes = arm.raw_successes + excluded.raw_successes,
        last_used_at = greatest(arm.last_used_at, excluded.last_used_at);
    RETURN CASE WHEN rival.weight IS NULL THEN 'recorded' ELSE 'superseding' END;
END
$$;
REVOKE ALL ON FUNCTION record_plain_event(jsonb, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION record_plain_event(jsonb, timestamptz) TO @definer@;
