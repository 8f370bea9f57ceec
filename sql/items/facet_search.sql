-- The active items whose attribute of that name is one of the values, or a list that holds one: at most so many (NULL:
-- all). It owns its rights, because `&&` is not leakproof and a policy would keep the planner from the index; so it
-- checks the tenant first. Numbers of values can collide: the values themselves decide. Adding 0 keeps the planner from
-- reading the collection's whole key instead.
CREATE OR REPLACE FUNCTION items_with_attribute(collection bigint, name text, wanted jsonb[], most bigint)
RETURNS TABLE (item_id text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    place bigint := hashtextextended(name COLLATE "C", collection);
    numbers bigint[] := ARRAY(
        SELECT jsonb_hash_extended(one.value, place) FROM unnest(wanted || '[]'::jsonb) AS one (value)
    );
BEGIN
    PERFORM FROM collections AS owner
    WHERE owner.collection_id = collection AND owner.tenant_id = current_tenant();
    IF NOT FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('collection %s is not the current tenant''s', collection);
    END IF;

    RETURN QUERY
    SELECT item.item_id FROM items AS item
    CROSS JOIN LATERAL (SELECT item.attributes -> name AS value) AS given
    WHERE item.facets && numbers AND item.collection_id + 0 = collection AND item.status <> 'archived'
        -- There may be thousands of values: both lists of them are hashed, once.
        AND CASE WHEN jsonb_typeof(given.value) = 'array' THEN EXISTS (
            SELECT FROM jsonb_array_elements(given.value) AS element
            WHERE element.value IN (SELECT one.value FROM unnest(wanted) AS one (value))
        ) ELSE given.value IN (SELECT one.value FROM unnest(wanted) AS one (value)) END
    LIMIT most;
END
$$;
ALTER FUNCTION items_with_attribute(bigint, text, jsonb[], bigint) OWNER TO @definer@;
REVOKE ALL ON FUNCTION items_with_attribute(bigint, text, jsonb[], bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION items_with_attribute(bigint, text, jsonb[], bigint) TO @app@;
