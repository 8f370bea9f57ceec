-- The writing of feedback.

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
            past.collection_id, context_buckets(past.domain, past.complexity, past.cluster),
            wanted = ANY (past.shown_items)
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

-- Stores events and adds them to the arms of all their context buckets, in one statement; gives for each what became of
-- it: recorded, repeated (its key is stored already), superseding (it replaced an earlier verdict of its subject),
-- superseded (a later one was there first), or refused and why. With a refused one nothing is stored, unless
-- skip_refused. An event that is stored and does not count has weight 0, and discounted says why.
-- Whoever adds to an item's arms holds its arm of no context from the start, taken in order of collection and item, so
-- what is read after that cannot change: no key is counted twice, and of a subject one verdict counts, the latest by
-- event time (then by key), and of an API key's events on an item so many count in a day as its cap says. Within READ
-- COMMITTED, where each statement sees what was committed before it.
-- Its plans are kept, and made when the tables may be empty: so it leaves the planner no second choice.
CREATE OR REPLACE FUNCTION record_feedback(
    events jsonb, retrieved_from timestamptz, retrieved_to timestamptz, skip_refused boolean
)
RETURNS TABLE (place integer, outcome text, discounted text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    mine bigint[];
    held text;
    found feedback[];
    places integer[];
    refused integer[];
    reasons text[];
    rivals feedback[];
    replaced feedback[];
BEGIN
    -- Assigned, which costs less than a statement.
    held := pg_advisory_xact_lock_shared(feedback_lock())::text;
    IF jsonb_array_length(events) = 1 THEN
        outcome := record_plain_event(events->0, retrieved_from);
        IF outcome IS NOT NULL THEN
            place := 0;
            discounted := '';
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;

    mine := ARRAY(SELECT owner.collection_id FROM collections AS owner WHERE owner.tenant_id = current_tenant());
    SELECT
        array_agg(ROW(
            known.collection_id, known.item_id, known.feedback_key, known.subject, known.retrieval_id,
            known.retrieved_at, known.actor, known.session, known.kind, known.reward,
            CASE WHEN known.reason = '' THEN known.weight ELSE 0 END, known.weight, known.contexts, known.note,
            known.occurred_at, now(), NULL, known.reason, known.key_id
        )::feedback ORDER BY known.place) FILTER (WHERE known.problem IS NULL),
        array_agg(known.place ORDER BY known.place) FILTER (WHERE known.problem IS NULL),
        array_agg(known.place ORDER BY known.place) FILTER (WHERE known.problem IS NOT NULL),
        array_agg(known.problem ORDER BY known.place) FILTER (WHERE known.problem IS NOT NULL)
    INTO found, places, refused, reasons
    FROM (
        SELECT
            given.place, owner.collection_id, given.item_id, given.feedback_key, given.subject, given.retrieval_id,
            given.retrieved_at, given.actor, given.session, given.kind, given.reward, given.weight, given.note,
            coalesce(past.contexts, given.contexts) AS contexts, given.occurred_at,
            coalesce(given.key_id, '') AS key_id,
            CASE
                WHEN given.retrieval_id IS NOT NULL AND past.collection_id IS NULL THEN 'unknown retrieval'
                WHEN owner.collection_id IS NULL THEN 'unknown collection'
                WHEN past.is_shown IS NOT TRUE AND kept.is_kept IS NULL THEN 'unknown item'
                WHEN extract(epoch FROM least(given.occurred_at, now()) - decay.landmark)
                    > 1000 * 86400 * decay.half_life_days THEN 'too far from the landmark'
            END AS problem,
            CASE
                WHEN given.retrieval_id IS NOT NULL AND past.is_shown IS NOT TRUE THEN 'not shown'
                WHEN quarantine.is_held THEN 'quarantined'
                ELSE ''
            END AS reason
        FROM jsonb_to_recordset(events) AS given (
            place integer, collection text, item_id text, feedback_key uuid, subject uuid, retrieval_id uuid,
            retrieved_at timestamptz, actor text, session text, kind text, reward double precision,
            weight double precision, contexts text[], note text, occurred_at timestamptz, key_id text
        )
        LEFT JOIN LATERAL (
            SELECT
                one.collection_id, context_buckets(one.domain, one.complexity, one.cluster) AS contexts,
                given.item_id = ANY (one.shown_items) AS is_shown
            FROM retrievals AS one
            WHERE one.collection_id = ANY(mine) AND one.retrieval_id = given.retrieval_id
                AND one.retrieved_at = given.retrieved_at
                AND one.retrieved_at BETWEEN retrieved_from AND retrieved_to
            LIMIT 1
        ) AS past ON given.retrieval_id IS NOT NULL
        LEFT JOIN LATERAL (
            SELECT one.collection_id FROM collections AS one
            WHERE one.tenant_id = current_tenant() AND one.name = given.collection COLLATE "C"
            LIMIT 1
        ) AS named ON given.retrieval_id IS NULL
        CROSS JOIN LATERAL (SELECT coalesce(past.collection_id, named.collection_id)) AS owner (collection_id)
        LEFT JOIN LATERAL (
            SELECT true AS is_kept FROM items AS one
            WHERE one.collection_id = owner.collection_id AND one.item_id = given.item_id
            LIMIT 1
        ) AS kept ON past.is_shown IS NOT TRUE
        LEFT JOIN LATERAL (
            SELECT true AS is_held FROM quarantines AS one
            WHERE one.collection_id = ANY(mine) AND one.actor = given.actor COLLATE "C"
            LIMIT 1
        ) AS quarantine ON given.actor <> ''
        CROSS JOIN LATERAL learning_state(owner.collection_id) AS decay
        OFFSET 0
    ) AS known;
    IF refused IS NOT NULL THEN
        RETURN QUERY SELECT one.place, one.reason, '' FROM unnest(refused, reasons) AS one (place, reason);
        IF NOT skip_refused THEN
            RETURN;
        END IF;
    END IF;

    INSERT INTO arms AS arm (collection_id, item_id, context, successes, failures)
    SELECT DISTINCT event.collection_id, event.item_id, '', 0::double precision, 0::double precision
    FROM unnest(found) AS event ORDER BY 1, 2
    ON CONFLICT ON CONSTRAINT arms_pkey DO UPDATE SET uses = arm.uses WHERE false;

    SELECT array_agg(rival.event) INTO rivals
    FROM (SELECT DISTINCT event.collection_id, event.item_id, event.subject FROM unnest(found) AS event) AS wanted
    CROSS JOIN LATERAL (
        SELECT event FROM feedback AS event
        WHERE event.collection_id = wanted.collection_id AND event.item_id = wanted.item_id
            AND event.subject = wanted.subject AND event.superseded_at IS NULL
        LIMIT 1
    ) AS rival;
    IF rivals IS NOT NULL THEN
        WITH gone AS (
            UPDATE feedback AS old SET superseded_at = now()
            FROM unnest(rivals) AS rival
            WHERE old.collection_id = rival.collection_id AND old.item_id = rival.item_id
                AND old.feedback_key = rival.feedback_key
                AND EXISTS (
                    SELECT FROM unnest(found) AS event
                    WHERE event.collection_id = rival.collection_id AND event.item_id = rival.item_id
                        AND event.subject = rival.subject
                        AND (event.occurred_at, event.feedback_key) > (rival.occurred_at, rival.feedback_key)
                        AND NOT EXISTS (
                            SELECT FROM feedback AS stored
                            WHERE stored.collection_id = event.collection_id AND stored.item_id = event.item_id
                                AND stored.feedback_key = event.feedback_key
                        )
                )
            RETURNING rival
        )
        SELECT array_agg(gone.rival) INTO replaced FROM gone;
    END IF;

    RETURN QUERY
    WITH fresh AS (
        SELECT DISTINCT ON (event.collection_id, event.item_id, event.feedback_key) event.*
        FROM unnest(found) WITH ORDINALITY AS event
        LEFT JOIN LATERAL (
            SELECT true AS is_known FROM feedback AS one
            WHERE one.collection_id = event.collection_id AND one.item_id = event.item_id
                AND one.feedback_key = event.feedback_key
            LIMIT 1
        ) AS stored ON true
        WHERE stored.is_known IS NULL
        ORDER BY event.collection_id, event.item_id, event.feedback_key, event.ordinality
    ), inserted AS (
        INSERT INTO feedback
        SELECT
            event.collection_id, event.item_id, event.feedback_key, event.subject, event.retrieval_id,
            event.retrieved_at, event.actor, event.session, event.kind, event.reward,
            CASE WHEN beyond.reason <> '' THEN 0 ELSE event.weight END, event.given_weight, event.contexts, event.note,
            event.occurred_at, event.received_at,
            CASE WHEN event.nth_of_subject > 1
                OR (rival.occurred_at, rival.feedback_key) > (event.occurred_at, event.feedback_key)
                THEN now() END,
            coalesce(nullif(beyond.reason, ''), event.discounted), event.key_id
        FROM (
            -- What was said today is counted once for all events of an actor, or of a key on an item: for the first one.
            SELECT
                one.*, state.daily_cap, allowed.cap AS key_cap,
                max(said.events) OVER (PARTITION BY one.collection_id, one.actor) AS said_today,
                max(sent.events) OVER (PARTITION BY one.collection_id, one.item_id, one.key_id) AS sent_today
            FROM (
                SELECT
                    one.*,
                    row_number() OVER (
                        PARTITION BY one.collection_id, one.item_id, one.subject
                        ORDER BY one.occurred_at DESC, one.feedback_key DESC
                    ) AS nth_of_subject,
                    row_number() OVER (
                        PARTITION BY one.collection_id, one.actor ORDER BY one.ordinality
                    ) AS nth_of_actor,
                    row_number() OVER (
                        PARTITION BY one.collection_id, one.item_id, one.key_id ORDER BY one.ordinality
                    ) AS nth_of_key
                FROM fresh AS one
            ) AS one
            CROSS JOIN LATERAL learning_state(one.collection_id) AS state
            CROSS JOIN LATERAL (
                SELECT coalesce(max(key.feedback_cap), 0) AS cap FROM api_keys AS key
                WHERE one.key_id <> '' AND key.key_id = one.key_id AND key.tenant_id = current_tenant()
            ) AS allowed
            CROSS JOIN LATERAL (
                SELECT count(*) AS events
                FROM (
                    SELECT FROM feedback AS said
                    WHERE one.nth_of_actor = 1 AND said.collection_id = one.collection_id AND said.actor = one.actor
                        AND said.actor <> '' AND said.received_at >= date_trunc('day', now(), 'UTC')
                    LIMIT state.daily_cap
                ) AS today
            ) AS said
            CROSS JOIN LATERAL (
                SELECT count(*) AS events
                FROM (
                    SELECT FROM feedback AS sent
                    WHERE one.nth_of_key = 1 AND sent.key_id = one.key_id AND sent.collection_id = one.collection_id
                        AND sent.item_id = one.item_id AND sent.key_id <> ''
                        AND sent.received_at >= date_trunc('day', now(), 'UTC')
                    LIMIT allowed.cap
                ) AS today
            ) AS sent
        ) AS event
        LEFT JOIN unnest(rivals) AS rival
            ON rival.collection_id = event.collection_id AND rival.item_id = event.item_id
            AND rival.subject = event.subject
        CROSS JOIN LATERAL (
            SELECT CASE
                WHEN event.discounted = 'not shown' THEN ''
                WHEN event.key_id <> '' AND event.sent_today + event.nth_of_key > event.key_cap
                    THEN 'over the cap of the key'
                WHEN event.actor <> '' AND event.said_today + event.nth_of_actor > event.daily_cap
                    THEN 'over the daily cap'
                ELSE ''
            END
        ) AS beyond (reason)
        RETURNING *
    ), counted AS (
        INSERT INTO arms AS arm (
            collection_id, item_id, context, successes, failures, uses, raw_successes, last_used_at
        )
        SELECT
            event.collection_id, event.item_id, bucket.context,
            sum(event.sign * event.weight * event.reward * share.weight),
            sum(event.sign * event.weight * (1 - event.reward) * share.weight),
            sum(event.sign), sum(event.sign * (event.reward >= 0.5)::integer),
            max(event.occurred_at) FILTER (WHERE event.sign > 0)
        FROM (
            SELECT
                one.collection_id, one.item_id, one.contexts, one.reward, one.weight, one.occurred_at,
                one.received_at, 1 AS sign
            FROM inserted AS one WHERE one.superseded_at IS NULL AND one.weight > 0
            UNION ALL
            SELECT
                one.collection_id, one.item_id, one.contexts, one.reward, one.weight, one.occurred_at,
                one.received_at, -1
            FROM unnest(replaced) AS one WHERE one.weight > 0
        ) AS event
        CROSS JOIN LATERAL learning_state(event.collection_id) AS decay
        CROSS JOIN LATERAL decay_weight(
            least(event.occurred_at, event.received_at), decay.landmark, decay.half_life_days
        ) AS share (weight)
        CROSS JOIN LATERAL unnest(event.contexts) AS bucket (context)
        GROUP BY event.collection_id, event.item_id, bucket.context
        ORDER BY event.collection_id, event.item_id, bucket.context
        ON CONFLICT ON CONSTRAINT arms_pkey DO UPDATE SET
            successes = CASE WHEN arm.uses + excluded.uses = 0 THEN 0 ELSE arm.successes + excluded.successes END,
            failures = CASE WHEN arm.uses + excluded.uses = 0 THEN 0 ELSE arm.failures + excluded.failures END,
            uses = arm.uses + excluded.uses,
            raw_successes = arm.raw_successes + excluded.raw_successes,
            last_used_at = greatest(arm.last_used_at, excluded.last_used_at)
    )
    SELECT
        places[event.ordinality],
        CASE
            WHEN stored.feedback_key IS NULL OR event.ordinality <> first.ordinality THEN 'repeated'
            WHEN stored.superseded_at IS NOT NULL THEN 'superseded'
            WHEN old.subject IS NOT NULL THEN 'superseding'
            ELSE 'recorded'
        END,
        coalesce(stored.discounted, '')
    FROM unnest(found) WITH ORDINALITY AS event
    LEFT JOIN fresh AS first
        ON first.collection_id = event.collection_id AND first.item_id = event.item_id
        AND first.feedback_key = event.feedback_key
    LEFT JOIN inserted AS stored
        ON stored.collection_id = event.collection_id AND stored.item_id = event.item_id
        AND stored.feedback_key = event.feedback_key
    LEFT JOIN unnest(replaced) AS old
        ON old.collection_id = event.collection_id AND old.item_id = event.item_id AND old.subject = event.subject;

    -- What counts is the last verdict, and that one does not: the time of the arm's last use is an earlier event's.
    IF replaced IS NOT NULL THEN
        PERFORM recount_arms(emptied.collection_id, emptied.item_ids, 0)
        FROM (
            SELECT old.collection_id, array_agg(DISTINCT old.item_id) AS item_ids
            FROM unnest(replaced) AS old
            JOIN feedback AS now_valid
                ON now_valid.collection_id = old.collection_id AND now_valid.item_id = old.item_id
                AND now_valid.subject = old.subject AND now_valid.superseded_at IS NULL
            WHERE old.weight > 0 AND now_valid.weight = 0
            GROUP BY old.collection_id
        ) AS emptied;
    END IF;
END
$$;
ALTER FUNCTION record_feedback(jsonb, timestamptz, timestamptz, boolean) OWNER TO @definer@;
GRANT INSERT, UPDATE ON feedback, arms TO @definer@;
CREATE POLICY feedback_definer_inserts ON feedback FOR INSERT TO @definer@ WITH CHECK (true);
CREATE POLICY feedback_definer_updates ON feedback FOR UPDATE TO @definer@ USING (true);
CREATE POLICY arms_definer_inserts ON arms FOR INSERT TO @definer@ WITH CHECK (true);
CREATE POLICY arms_definer_updates ON arms FOR UPDATE TO @definer@ USING (true);
GRANT EXECUTE ON FUNCTION feedback_lock(), context_buckets(text, double precision, integer),
    decay_weight(timestamptz, timestamptz, double precision), compared_arms(bigint, text[], double precision),
    recount_arms(bigint, text[], double precision) TO @definer@;

REVOKE ALL ON FUNCTION record_feedback(jsonb, timestamptz, timestamptz, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION record_feedback(jsonb, timestamptz, timestamptz, boolean) TO @app@;
