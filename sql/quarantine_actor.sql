-- Whether what an actor says counts, in all collections of the tenant: what was said, by taking it out of the arms or
-- putting it back, and what will be said. Gives how many events it changed.
CREATE OR REPLACE FUNCTION quarantine_actor(wanted text, why text, is_held boolean) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    mine bigint[] := ARRAY(SELECT owner.collection_id FROM collections AS owner WHERE owner.tenant_id = current_tenant());
    changed bigint;
    items_changed jsonb;
BEGIN
    PERFORM pg_advisory_xact_lock(feedback_lock());
    IF is_held THEN
        INSERT INTO quarantines AS held (collection_id, actor, reason)
        SELECT owner.collection_id, wanted, why FROM unnest(mine) AS owner (collection_id)
        ON CONFLICT ON CONSTRAINT quarantines_pkey DO UPDATE SET reason = excluded.reason;
    ELSE
        DELETE FROM quarantines AS held WHERE held.collection_id = ANY(mine) AND held.actor = wanted;
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
GRANT EXECUTE ON FUNCTION quarantine_actor(text, text, boolean) TO @app@;
REVOKE ALL ON FUNCTION quarantine_actor(text, text, boolean) FROM PUBLIC;
