-- The objects that an installation on a cluster has in addition to those of a single server, or instead of them.

-- The collections that the current role sees: a policy of a distributed table cannot contain a subquery. Not for
-- parallel workers, because Citus would change a setting there, which PostgreSQL forbids.
CREATE OR REPLACE FUNCTION own_collections() RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED SET search_path FROM CURRENT AS $$
BEGIN
    RETURN ARRAY(SELECT known.collection_id FROM collections AS known);
END
$$;
REVOKE ALL ON FUNCTION own_collections() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION own_collections() TO @app@, @analyst@;

-- Distributes a new table like the collections.
CREATE OR REPLACE FUNCTION place_by_collection(name text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM create_distributed_table(name::regclass, 'collection_id', colocate_with => 'items');
END
$$;

-- Citus uses sequences, and locks the copies of small tables, with the rights of the writer.
GRANT USAGE ON ALL SEQUENCES IN SCHEMA @schema@ TO @app@, @definer@;
GRANT UPDATE ON tenants, embedding_spaces TO @definer@;

-- record_feedback of learning/feedback.sql for a cluster: it handles one collection after the other, so that each
-- statement runs on one node, because a node can pass neither a ctid nor a row type to the next statement. Results and
-- lock order are the same: a collection's events, then its arms. Each SELECT of an INSERT reads a row of the
-- collection, so that it runs on the collection's node; otherwise its rows would travel to the coordinator and back.
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
    events integer := cardinality(item_ids);
    arrival timestamptz := now();
    today timestamptz := date_trunc('day', now(), 'UTC');
    here integer;
    past record;
    state record;
    state_of bigint;  -- the collection whose state is read
    own_id bigint;
    held text[];  -- the actors that are quarantined
    key_cap integer;
    clusters integer[] := array_fill(NULL::integer, ARRAY[events]);
    shown boolean[] := array_fill(false, ARRAY[events]);
    -- For each event: its collection, the reason why it is refused, and the reason why it does not count.
    owner_ids bigint[] := array_fill(NULL::bigint, ARRAY[events]);
    faults text[] := array_fill(NULL::text, ARRAY[events]);
    reasons text[] := array_fill(''::text, ARRAY[events]);
    -- For the events of a collection that are stored now: their places, and what they add to arms.
    added integer[];
    new_items text[];
    new_keys uuid[];
    new_subjects uuid[];
    capped integer[];
    lost_items text[];
    lost_keys uuid[];
    emptied text[];
    replaced integer;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(feedback_lock());

    -- An impression has the collection and the context of its search.
    IF retrieved_from IS NOT NULL THEN
        FOR past IN
            SELECT
                event.place, one.collection_id, one.domain, one.complexity, one.cluster,
                event.item_id = ANY (one.shown_items) AS is_shown
            FROM retrievals AS one
            JOIN unnest(item_ids, retrieval_ids, retrieval_times)
                WITH ORDINALITY AS event (item_id, retrieval_id, retrieved_at, place)
                ON event.retrieval_id = one.retrieval_id AND event.retrieved_at = one.retrieved_at
            WHERE one.collection_id = ANY (mine) AND one.retrieved_at BETWEEN retrieved_from AND retrieved_to
        LOOP
            here := past.place;
            owner_ids[here] := past.collection_id;
            domains[here] := coalesce(past.domain, domains[here]);
            complexities[here] := coalesce(past.complexity, complexities[here]);
            clusters[here] := past.cluster;
            shown[here] := past.is_shown;
        END LOOP;
    END IF;
    owner_ids := ARRAY(
        SELECT coalesce(event.owner_id, own.collection_id)
        FROM unnest(owner_ids, owners) WITH ORDINALITY AS event (owner_id, owner, place)
        LEFT JOIN collections AS own ON own.tenant_id = current_tenant() AND own.name = event.owner COLLATE "C"
        ORDER BY event.place
    );
    IF EXISTS (SELECT 1 FROM unnest(actors) AS said (actor) WHERE said.actor <> '') THEN
        held := ARRAY(
            SELECT said.actor FROM quarantines AS said WHERE said.tenant_id = current_tenant() AND said.actor = ANY (actors)
        );
    END IF;
    SELECT coalesce(max(key.feedback_cap), 0) INTO key_cap FROM api_keys AS key
    WHERE key.key_id = sent_by AND key.tenant_id = current_tenant();

    FOR own_id IN SELECT DISTINCT own.id FROM unnest(owner_ids) AS own (id) WHERE own.id IS NOT NULL LOOP
        SELECT known.landmark, known.half_life_days, known.daily_cap INTO state FROM learning_state(own_id) AS known;
        state_of := own_id;
        new_items := ARRAY(
            SELECT event.item_id FROM unnest(owner_ids, shown, item_ids) AS event (owner_id, is_shown, item_id)
            WHERE event.owner_id = own_id AND event.is_shown IS NOT TRUE
        );
        IF new_items <> '{}' THEN
            new_items := ARRAY(
                SELECT item.item_id FROM items AS item WHERE item.collection_id = own_id AND item.item_id = ANY (new_items)
            );
        END IF;
        FOR here IN 1 .. events LOOP
            CONTINUE WHEN owner_ids[here] IS DISTINCT FROM own_id;
            IF shown[here] IS NOT TRUE AND item_ids[here] <> ALL (new_items) THEN
                faults[here] := 'unknown item';
            ELSIF least(event_times[here], arrival) > state.landmark + 1000 * state.half_life_days * interval '1 day' THEN
                faults[here] := 'too far from the landmark';
            END IF;
        END LOOP;
    END LOOP;
    FOR here IN 1 .. events LOOP
        IF owner_ids[here] IS NULL THEN
            faults[here] := CASE WHEN retrieval_ids[here] IS NULL THEN 'unknown collection' ELSE 'unknown retrieval' END;
        ELSIF retrieval_ids[here] IS NOT NULL AND shown[here] IS NOT TRUE THEN
            reasons[here] := 'not shown';
        ELSIF actors[here] <> '' AND actors[here] = ANY (held) THEN
            reasons[here] := 'quarantined';
        END IF;
    END LOOP;
    SELECT array_agg(fault.place ORDER BY fault.place), array_agg(fault.problem ORDER BY fault.place)
    INTO refused, problems
    FROM unnest(faults) WITH ORDINALITY AS fault (problem, place) WHERE fault.problem IS NOT NULL;
    recorded := 0;
    superseding := 0;
    repeated := events - coalesce(cardinality(refused), 0);
    IF refused IS NOT NULL AND NOT skip_refused THEN
        RETURN;
    END IF;

    FOR own_id IN
        SELECT DISTINCT event.owner_id FROM unnest(owner_ids, faults) AS event (owner_id, problem)
        WHERE event.problem IS NULL ORDER BY event.owner_id
    LOOP
        IF own_id <> state_of THEN
            SELECT known.landmark, known.half_life_days, known.daily_cap INTO state FROM learning_state(own_id) AS known;
            state_of := own_id;
        END IF;
        WITH stored AS (
            INSERT INTO feedback (
                collection_id, item_id, feedback_key, subject, retrieval_id, retrieved_at, actor, session, kind, reward,
                weight, given_weight, contexts, note, occurred_at, received_at, discounted, key_id
            )
            SELECT
                here.collection_id, event.item_id, event.feedback_key, event.subject, event.retrieval_id,
                event.retrieved_at, coalesce(event.actor, ''), coalesce(event.session, ''), event.kind,
                coalesce(event.reward, 0), CASE WHEN event.reason = '' THEN coalesce(event.weight, 0) ELSE 0 END,
                coalesce(event.weight, 0),
                context_buckets(coalesce(event.domain, ''), event.complexity, event.cluster), coalesce(event.note, ''),
                event.occurred_at, arrival, event.reason, sent_by
            FROM collection_statistics AS here
            CROSS JOIN unnest(
                owner_ids, faults, reasons, item_ids, feedback_keys, subjects, retrieval_ids, retrieval_times, actors,
                sessions, kinds, rewards, weights, domains, complexities, clusters, notes, event_times
            ) WITH ORDINALITY AS event (
                owner_id, problem, reason, item_id, feedback_key, subject, retrieval_id, retrieved_at, actor,
                session, kind, reward, weight, domain, complexity, cluster, note, occurred_at, place
            )
            WHERE here.collection_id = own_id AND event.owner_id = own_id AND event.problem IS NULL
            ORDER BY event.item_id COLLATE "C", event.feedback_key, event.place
            ON CONFLICT DO NOTHING
            RETURNING item_id, feedback_key
        )
        SELECT array_agg(stored.item_id), array_agg(stored.feedback_key) INTO new_items, new_keys FROM stored;
        CONTINUE WHEN new_items IS NULL;
        -- Of events with the same key only the first is stored.
        SELECT
            array_agg(event.place ORDER BY event.place), array_agg(event.item_id ORDER BY event.place),
            array_agg(event.feedback_key ORDER BY event.place), array_agg(event.subject ORDER BY event.place)
        INTO added, new_items, new_keys, new_subjects
        FROM (
            SELECT DISTINCT ON (given.item_id, given.feedback_key) given.*
            FROM unnest(owner_ids, faults, item_ids, feedback_keys, subjects)
                WITH ORDINALITY AS given (owner_id, problem, item_id, feedback_key, subject, place)
            JOIN unnest(new_items, new_keys) AS stored (item_id, feedback_key)
                ON stored.item_id = given.item_id AND stored.feedback_key = given.feedback_key
            WHERE given.owner_id = own_id AND given.problem IS NULL
            ORDER BY given.item_id, given.feedback_key, given.place
        ) AS event;
        recorded := recorded + cardinality(added);
        repeated := repeated - cardinality(added);

        IF sent_by <> '' THEN
            -- Writers of an item's arms hold its arm of all contexts, so that the cap of a key is exact.
            INSERT INTO arms AS arm (collection_id, item_id, context, successes, failures)
            SELECT here.collection_id, new.item_id, '', 0, 0
            FROM collection_statistics AS here CROSS JOIN unnest(new_items) AS new (item_id)
            WHERE here.collection_id = own_id
            GROUP BY here.collection_id, new.item_id
            ORDER BY new.item_id COLLATE "C"
            ON CONFLICT (collection_id, item_id, context) DO UPDATE SET uses = arm.uses;
        END IF;
        IF sent_by <> '' OR held IS NOT NULL THEN
            -- The number of today's events before each of these events.
            capped := '{}';
            FOR past IN
                SELECT
                    event.place, sent_by <> '' AND sent.today - event.later_of_item > key_cap AS is_over_key,
                    said.today - event.later_of_actor > state.daily_cap AS is_over_day
                FROM (
                    SELECT
                        new.place, new.actor, new.item_id,
                        count(*) OVER (PARTITION BY new.actor)
                            - row_number() OVER (PARTITION BY new.actor ORDER BY new.place) AS later_of_actor,
                        count(*) OVER (PARTITION BY new.item_id)
                            - row_number() OVER (PARTITION BY new.item_id ORDER BY new.place) AS later_of_item
                    FROM (
                        SELECT one.place, coalesce(actors[one.place], '') AS actor, one.item_id
                        FROM unnest(added, new_items) AS one (place, item_id)
                    ) AS new
                ) AS event
                LEFT JOIN (
                    SELECT known.actor, count(*) AS today FROM feedback AS known
                    WHERE known.collection_id = own_id AND known.actor = ANY (actors) AND known.actor <> ''
                        AND known.received_at >= today
                    GROUP BY known.actor
                ) AS said ON said.actor = event.actor
                LEFT JOIN (
                    SELECT known.item_id, count(*) AS today FROM feedback AS known
                    WHERE known.collection_id = own_id AND known.item_id = ANY (new_items) AND known.key_id = sent_by
                        AND sent_by <> '' AND known.received_at >= today
                    GROUP BY known.item_id
                ) AS sent ON sent.item_id = event.item_id
            LOOP
                here := past.place;
                CONTINUE WHEN reasons[here] = 'not shown' OR (past.is_over_key OR past.is_over_day) IS NOT TRUE;
                reasons[here] := CASE WHEN past.is_over_key THEN 'over the cap of the key' ELSE 'over the daily cap' END;
                capped := capped || here;
            END LOOP;
            IF capped <> '{}' THEN
                UPDATE feedback AS event SET weight = 0, discounted = over.reason
                FROM unnest(new_items, new_keys, ARRAY(
                    SELECT reasons[one.place] FROM unnest(added) WITH ORDINALITY AS one (place, nth) ORDER BY one.nth
                )) AS over (item_id, feedback_key, reason)
                WHERE event.collection_id = own_id AND event.item_id = over.item_id
                    AND event.feedback_key = over.feedback_key AND event.discounted <> over.reason;
            END IF;
        END IF;
        discounted := discounted || ARRAY(
            SELECT reasons[one.place] FROM unnest(added) AS one (place) WHERE reasons[one.place] <> '' ORDER BY one.place
        );

        -- An event that does not count locks the item too.
        INSERT INTO arms AS arm (collection_id, item_id, context, successes, failures, uses, raw_successes, last_used_at)
        SELECT
            event.collection_id, event.item_id, bucket.context, sum(event.share * event.reward),
            sum(event.share * (1 - event.reward)), count(*) FILTER (WHERE event.weight > 0),
            count(*) FILTER (WHERE event.weight > 0 AND event.reward >= 0.5),
            max(event.occurred_at) FILTER (WHERE event.weight > 0)
        FROM (
            SELECT
                said.collection_id, said.item_id, said.reward, said.weight, said.contexts, said.occurred_at,
                said.weight * decay_weight(
                    least(said.occurred_at, arrival), state.landmark, state.half_life_days
                ) AS share
            FROM feedback AS said
            JOIN unnest(new_items, new_keys) AS new (item_id, feedback_key)
                ON new.item_id = said.item_id AND new.feedback_key = said.feedback_key
            WHERE said.collection_id = own_id
        ) AS event
        CROSS JOIN LATERAL unnest(
            CASE WHEN event.weight > 0 THEN event.contexts ELSE event.contexts[:1] END
        ) AS bucket (context)
        GROUP BY event.collection_id, event.item_id, bucket.context
        ORDER BY event.item_id COLLATE "C", bucket.context COLLATE "C"
        ON CONFLICT (collection_id, item_id, context) DO UPDATE SET
            successes = arm.successes + excluded.successes, failures = arm.failures + excluded.failures,
            uses = arm.uses + excluded.uses, raw_successes = arm.raw_successes + excluded.raw_successes,
            last_used_at = greatest(arm.last_used_at, excluded.last_used_at);

        -- Only the latest verdict of a subject counts: earlier ones are subtracted. If the latest has no weight, or not
        -- all of the contexts, the last use of an arm may be that of an earlier event, so the item's arms are counted
        -- again.
        CONTINUE WHEN NOT EXISTS (SELECT 1 FROM unnest(new_subjects) AS new (subject) WHERE new.subject IS NOT NULL);
        SELECT
            array_agg(rival.item_id), array_agg(rival.feedback_key),
            array_agg(DISTINCT rival.item_id) FILTER (WHERE rival.weight > 0 AND NOT rival.latest_replaces),
            count(*) FILTER (WHERE rival.received_at <> arrival)
        INTO lost_items, lost_keys, emptied, replaced
        FROM (
            SELECT
                said.item_id, said.feedback_key, said.weight, said.received_at,
                row_number() OVER latest AS rank, first_value(said.weight > 0) OVER latest
                    AND first_value(said.contexts) OVER latest @> said.contexts AS latest_replaces
            FROM feedback AS said
            WHERE said.collection_id = own_id AND said.superseded_at IS NULL AND (said.item_id, said.subject) IN (
                SELECT new.item_id, new.subject FROM unnest(new_items, new_subjects) AS new (item_id, subject)
            )
            WINDOW latest AS (
                PARTITION BY said.item_id, said.subject ORDER BY said.occurred_at DESC, said.feedback_key DESC
            )
        ) AS rival
        WHERE rival.rank > 1;
        CONTINUE WHEN lost_items IS NULL;
        superseding := superseding + replaced;
        UPDATE feedback AS event SET superseded_at = arrival
        FROM unnest(lost_items, lost_keys) AS lost (item_id, feedback_key)
        WHERE event.collection_id = own_id AND event.item_id = lost.item_id AND event.feedback_key = lost.feedback_key;
        INSERT INTO arms AS arm (collection_id, item_id, context, successes, failures, uses, raw_successes)
        SELECT
            event.collection_id, event.item_id, bucket.context, -sum(event.share * event.reward),
            -sum(event.share * (1 - event.reward)), -count(*), -count(*) FILTER (WHERE event.reward >= 0.5)
        FROM (
            SELECT
                said.collection_id, said.item_id, said.reward, said.contexts, said.weight * decay_weight(
                    least(said.occurred_at, said.received_at), state.landmark, state.half_life_days
                ) AS share
            FROM feedback AS said
            JOIN unnest(lost_items, lost_keys) AS lost (item_id, feedback_key)
                ON lost.item_id = said.item_id AND lost.feedback_key = said.feedback_key
            WHERE said.collection_id = own_id AND said.weight > 0 AND said.item_id <> ALL (coalesce(emptied, '{}'))
        ) AS event
        CROSS JOIN LATERAL unnest(event.contexts) AS bucket (context)
        GROUP BY event.collection_id, event.item_id, bucket.context
        ON CONFLICT (collection_id, item_id, context) DO UPDATE SET
            successes = CASE WHEN arm.uses + excluded.uses = 0 THEN 0 ELSE arm.successes + excluded.successes END,
            failures = CASE WHEN arm.uses + excluded.uses = 0 THEN 0 ELSE arm.failures + excluded.failures END,
            uses = arm.uses + excluded.uses, raw_successes = arm.raw_successes + excluded.raw_successes;
        IF emptied IS NOT NULL THEN
            PERFORM recount_arms(own_id, emptied, 0);
        END IF;
    END LOOP;
END
$$;

-- Functions that write run with the rights of their caller: a transaction has one connection to a node for each role,
-- and two of them would wait for each other.
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
