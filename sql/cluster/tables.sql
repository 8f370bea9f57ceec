-- Additions to, and replacements of, a single server's installation on a cluster.

-- The collections that the current role sees. A policy of a distributed table can have no subquery of its own.
-- In the leader alone: Citus plans a query of a parallel worker with a setting changed, which PostgreSQL forbids there.
CREATE OR REPLACE FUNCTION own_collections() RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED SET search_path FROM CURRENT AS $$
BEGIN
    RETURN ARRAY(SELECT known.collection_id FROM collections AS known);
END
$$;
REVOKE ALL ON FUNCTION own_collections() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION own_collections() TO @app@, @analyst@;

-- Puts the rows of a new table where those of their collections are.
CREATE OR REPLACE FUNCTION place_by_collection(name text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM create_distributed_table(name::regclass, 'collection_id', colocate_with => 'items');
END
$$;

-- Citus takes numbers from a sequence, and a lock on each copy of a small table, with the rights of who writes.
GRANT USAGE ON ALL SEQUENCES IN SCHEMA @schema@ TO @app@, @definer@;
GRANT UPDATE ON tenants, embedding_spaces TO @definer@;

-- record_feedback of learning/feedback.sql, event by event: of rows on several nodes there is neither a place (ctid) nor a
-- row type to keep. What it stores and answers is the same; of one call's events the last by their keys are over a cap.
CREATE OR REPLACE FUNCTION record_feedback(
    owners text[], item_ids text[], feedback_keys uuid[], subjects uuid[], retrieval_ids uuid[],
    retrieval_times timestamptz[], actors text[], sessions text[], kinds text[], rewards double precision[],
    weights double precision[], domains text[], complexities double precision[], notes text[], event_times timestamptz[],
    retrieved_from timestamptz, retrieved_to timestamptz, sent_by text, skip_refused boolean,
    OUT recorded integer, OUT repeated integer, OUT superseding integer, OUT discounted text[],
    OUT refused integer[], OUT problems text[]
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    mine bigint[] := ARRAY(SELECT own.collection_id FROM collections AS own WHERE own.tenant_id = current_tenant());
    here integer;
    past record;
    state record;
    rival record;
    found_ids bigint[] := '{}';  -- of each event its collection,
    reasons text[] := '{}';  -- why it does not count,
    buckets jsonb := '[]';  -- and the contexts that it counts in
    -- Read once for all events: the quarantined actors, and the stored items, by collection.
    held text[];
    stored text[];
    cluster integer;
    is_shown boolean;
    own_id bigint;
    state_of bigint;  -- the collection whose state is read
    arm_of bigint;  -- the item whose arm is held
    arm_item text;
    problem text;
    why text;
    share double precision;
    contexts text[];
    key_cap integer;
    latest_counts boolean;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(feedback_lock());
    SELECT coalesce(max(key.feedback_cap), 0) INTO key_cap FROM api_keys AS key
    WHERE key.key_id = sent_by AND key.tenant_id = current_tenant();
    held := ARRAY(
        SELECT said.actor FROM quarantines AS said WHERE said.collection_id = ANY (mine) AND said.actor = ANY (actors)
    );
    stored := ARRAY(
        SELECT item.collection_id || ' ' || item.item_id FROM items AS item
        WHERE item.collection_id = ANY (mine) AND item.item_id = ANY (item_ids)
    );
    recorded := 0;
    superseding := 0;

    FOR here IN 1 .. cardinality(item_ids) LOOP
        problem := NULL;
        why := '';
        is_shown := NULL;
        cluster := NULL;
        IF retrieval_ids[here] IS NOT NULL THEN
            SELECT one.collection_id, one.domain, one.complexity, one.cluster, item_ids[here] = ANY (one.shown_items) AS shown
            INTO past FROM retrievals AS one
            WHERE one.collection_id = ANY (mine) AND one.retrieval_id = retrieval_ids[here]
                AND one.retrieved_at = retrieval_times[here]
            LIMIT 1;
            IF FOUND THEN
                SELECT own.name INTO problem FROM collections AS own WHERE own.collection_id = past.collection_id;
                owners[here] := problem;
                problem := NULL;
                domains[here] := past.domain;
                complexities[here] := coalesce(past.complexity, complexities[here]);
                cluster := past.cluster;
                is_shown := past.shown;
            END IF;
        END IF;
        own_id := NULL;
        SELECT own.collection_id INTO own_id FROM collections AS own
        WHERE own.tenant_id = current_tenant() AND own.name = owners[here] COLLATE "C";
        IF own_id IS DISTINCT FROM state_of OR state IS NULL THEN
            SELECT known.landmark, known.half_life_days, known.daily_cap INTO state FROM learning_state(own_id) AS known;
            state_of := own_id;
        END IF;
        IF own_id IS NULL THEN
            problem := CASE WHEN retrieval_ids[here] IS NULL THEN 'unknown collection' ELSE 'unknown retrieval' END;
        ELSIF is_shown IS NOT TRUE AND own_id || ' ' || item_ids[here] <> ALL (stored) THEN
            problem := 'unknown item';
        ELSIF least(event_times[here], now()) > state.landmark + 1000 * state.half_life_days * interval '1 day' THEN
            problem := 'too far from the landmark';
        ELSIF retrieval_ids[here] IS NOT NULL AND is_shown IS NOT TRUE THEN
            why := 'not shown';
        ELSIF actors[here] <> '' AND actors[here] = ANY (held) THEN
            why := 'quarantined';
        END IF;
        IF problem IS NOT NULL THEN
            refused := refused || here;
            problems := problems || problem;
            own_id := NULL;
        END IF;
        found_ids := found_ids || own_id;
        reasons := reasons || why;
        buckets := buckets || jsonb_build_array(
            to_jsonb(context_buckets(coalesce(domains[here], ''), complexities[here], cluster))
        );
    END LOOP;

    FOR here IN
        SELECT event.place FROM unnest(found_ids, item_ids, feedback_keys)
            WITH ORDINALITY AS event (collection_id, item_id, feedback_key, place)
        WHERE event.collection_id IS NOT NULL AND (skip_refused OR problems IS NULL)
        ORDER BY event.collection_id, event.item_id COLLATE "C", event.feedback_key, event.place
    LOOP
        own_id := found_ids[here];
        contexts := ARRAY(SELECT jsonb_array_elements_text(buckets -> (here - 1)));
        why := reasons[here];
        -- A writer of an item locks its arm without context first, so writers wait for each other item by item.
        IF (own_id, item_ids[here]) IS DISTINCT FROM (arm_of, arm_item) THEN
            INSERT INTO arms AS arm (collection_id, item_id, context, successes, failures)
            VALUES (own_id, item_ids[here], '', 0, 0)
            ON CONFLICT (collection_id, item_id, context) DO UPDATE SET uses = arm.uses;
            arm_of := own_id;
            arm_item := item_ids[here];
        END IF;
        INSERT INTO feedback (
            collection_id, item_id, feedback_key, subject, retrieval_id, retrieved_at, actor, session, kind, reward,
            weight, given_weight, contexts, note, occurred_at, discounted, key_id
        )
        VALUES (
            own_id, item_ids[here], feedback_keys[here], subjects[here], retrieval_ids[here], retrieval_times[here],
            coalesce(actors[here], ''), coalesce(sessions[here], ''), kinds[here], coalesce(rewards[here], 0),
            CASE WHEN why = '' THEN coalesce(weights[here], 0) ELSE 0 END, coalesce(weights[here], 0),
            contexts, coalesce(notes[here], ''), event_times[here], why,
            sent_by
        )
        ON CONFLICT DO NOTHING;
        CONTINUE WHEN NOT FOUND;
        recorded := recorded + 1;
        IF own_id IS DISTINCT FROM state_of THEN
            SELECT known.landmark, known.half_life_days, known.daily_cap INTO state FROM learning_state(own_id) AS known;
            state_of := own_id;
        END IF;
        IF why <> 'not shown' AND sent_by <> '' AND key_cap < (
            SELECT count(*) FROM feedback AS sent
            WHERE sent.collection_id = own_id AND sent.item_id = item_ids[here] AND sent.key_id = sent_by
                AND sent.received_at >= date_trunc('day', now(), 'UTC')
        ) THEN
            why := 'over the cap of the key';
        ELSIF why <> 'not shown' AND actors[here] <> '' AND state.daily_cap < (
            SELECT count(*) FROM feedback AS said
            WHERE said.collection_id = own_id AND said.actor = actors[here]
                AND said.received_at >= date_trunc('day', now(), 'UTC')
        ) THEN
            why := 'over the daily cap';
        END IF;
        IF why <> reasons[here] THEN
            UPDATE feedback AS event SET weight = 0, discounted = why
            WHERE event.collection_id = own_id AND event.item_id = item_ids[here] AND event.feedback_key = feedback_keys[here];
        END IF;
        IF why <> '' THEN
            discounted := discounted || why;
        ELSE
            PERFORM add_to_arms(
                own_id, item_ids[here], contexts,
                coalesce(weights[here], 0) * decay_weight(
                    least(event_times[here], now()), state.landmark, state.half_life_days
                ),
                coalesce(rewards[here], 0), CASE WHEN weights[here] > 0 THEN 1 ELSE 0 END, event_times[here]
            );
        END IF;

        -- All verdicts of a subject but the latest are taken out again.
        CONTINUE WHEN subjects[here] IS NULL;
        SELECT said.weight > 0 INTO latest_counts FROM feedback AS said
        WHERE said.collection_id = own_id AND said.item_id = item_ids[here] AND said.subject = subjects[here]
            AND said.superseded_at IS NULL
        ORDER BY said.occurred_at DESC, said.feedback_key DESC LIMIT 1;
        FOR rival IN
            SELECT said.feedback_key, said.reward, said.weight, said.contexts, said.occurred_at, said.received_at
            FROM feedback AS said
            WHERE said.collection_id = own_id AND said.item_id = item_ids[here] AND said.subject = subjects[here]
                AND said.superseded_at IS NULL
            ORDER BY said.occurred_at DESC, said.feedback_key DESC OFFSET 1
        LOOP
            UPDATE feedback AS event SET superseded_at = now()
            WHERE event.collection_id = own_id AND event.item_id = item_ids[here] AND event.feedback_key = rival.feedback_key;
            superseding := superseding + (rival.received_at <> now())::integer;
            IF rival.weight > 0 AND latest_counts THEN
                share := rival.weight * decay_weight(
                    least(rival.occurred_at, rival.received_at), state.landmark, state.half_life_days
                );
                PERFORM add_to_arms(own_id, item_ids[here], rival.contexts, -share, rival.reward, -1, NULL);
            ELSIF rival.weight > 0 THEN
                PERFORM recount_arms(own_id, ARRAY[item_ids[here]], 0);
            END IF;
        END LOOP;
    END LOOP;
    repeated := cardinality(item_ids) - coalesce(cardinality(refused), 0) - recorded;
END
$$;

-- Adds a verdict to the arms of an item in these contexts, or takes one out of them (number: -1). For record_feedback alone.
CREATE OR REPLACE FUNCTION add_to_arms(
    collection bigint, item text, buckets text[], share double precision, reward double precision, number integer,
    moment timestamptz
) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    bucket text;
BEGIN
    FOREACH bucket IN ARRAY buckets LOOP
        INSERT INTO arms AS arm (
            collection_id, item_id, context, successes, failures, uses, raw_successes, last_used_at
        )
        VALUES (
            collection, item, bucket, share * reward, share * (1 - reward), number,
            CASE WHEN reward >= 0.5 THEN number ELSE 0 END, moment
        )
        ON CONFLICT (collection_id, item_id, context) DO UPDATE SET
            successes = CASE WHEN arm.uses + excluded.uses = 0 THEN 0 ELSE arm.successes + excluded.successes END,
            failures = CASE WHEN arm.uses + excluded.uses = 0 THEN 0 ELSE arm.failures + excluded.failures END,
            uses = arm.uses + excluded.uses, raw_successes = arm.raw_successes + excluded.raw_successes,
            last_used_at = greatest(arm.last_used_at, excluded.last_used_at);
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION
    add_to_arms(bigint, text, text[], double precision, double precision, integer, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    add_to_arms(bigint, text, text[], double precision, double precision, integer, timestamptz) TO @definer@;

-- What writes runs with the rights of who calls it: a transaction has one connection to a node for each role, and two of
-- them would wait for each other.
DO $grants$
DECLARE
    helper regprocedure;
BEGIN
    FOR helper IN
        SELECT p.oid FROM pg_proc AS p
        WHERE p.pronamespace = to_regnamespace(quote_ident(@schema_literal@)) AND NOT p.prosecdef AND p.prokind = 'f'
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', helper, @app_literal@);
    END LOOP;
END
$grants$;
ALTER DEFAULT PRIVILEGES FOR ROLE @definer@ IN SCHEMA @schema@ GRANT EXECUTE ON FUNCTIONS TO @app@;
