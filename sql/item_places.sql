-- Which sequence an item belongs to, by the collection's setting; NULL: to none. Long names are known by their hash,
-- because the index holds them.
CREATE OR REPLACE FUNCTION sequence_of(attributes jsonb, setting jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN jsonb_typeof(attributes -> (setting ->> 'sequence')) NOT IN ('string', 'number', 'boolean') THEN NULL
        WHEN octet_length(attributes ->> (setting ->> 'sequence')) <= 512 THEN attributes ->> (setting ->> 'sequence')
        ELSE md5(attributes ->> (setting ->> 'sequence'))
    END
$$;

-- Its place in there: a number, or the seconds of a time; after all others where it says none. Equals are in order of key.
CREATE OR REPLACE FUNCTION place_of(attributes jsonb, occurred_at timestamptz, setting jsonb) RETURNS double precision
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(
        CASE
            WHEN setting ->> 'order' = 'occurred_at' THEN extract(epoch FROM occurred_at)::double precision
            WHEN jsonb_typeof(attributes -> (setting ->> 'order')) = 'number' THEN
                least(greatest(
                    (attributes ->> (setting ->> 'order'))::numeric, -1.7976931348623157e308
                ), 1.7976931348623157e308)::double precision
            WHEN jsonb_typeof(attributes -> (setting ->> 'order')) = 'string' THEN
                extract(epoch FROM attribute_time(attributes ->> (setting ->> 'order')))::double precision
        END, 'Infinity')
$$;

-- The items that stand nearest to a place, up to so many on each side of it. Itself it is no neighbour.
CREATE OR REPLACE FUNCTION places_around(
    collection bigint, at_sequence text, at_place double precision, at_item text, before integer, after integer
) RETURNS TABLE (item_id text)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    (SELECT near.item_id FROM item_places AS near
     WHERE near.collection_id = collection AND near.sequence = at_sequence COLLATE "C"
         AND (near.place, near.item_id) < (at_place, at_item COLLATE "C")
     ORDER BY near.place DESC, near.item_id DESC LIMIT before)
    UNION ALL
    (SELECT near.item_id FROM item_places AS near
     WHERE near.collection_id = collection AND near.sequence = at_sequence COLLATE "C"
         AND (near.place, near.item_id) > (at_place, at_item COLLATE "C")
     ORDER BY near.place, near.item_id LIMIT after)
$$;

-- What each of these items is indexed by: itself, and its neighbours. Texts cannot be compared by order in an index under
-- a policy (text_lt is not leakproof), so it owns its rights, and checks the tenant first.
CREATE OR REPLACE FUNCTION window_parts(collection bigint, ids text[], before integer, after integer)
RETURNS TABLE (item_id text, part_id text, is_own boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM collections AS owner
    WHERE owner.collection_id = collection AND owner.tenant_id = current_tenant();
    IF NOT FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('collection %s is not the current tenant''s', collection);
    END IF;
    RETURN QUERY
    SELECT item.item_id, item.item_id, true FROM items AS item
    WHERE item.collection_id = collection AND item.item_id = ANY (ids) AND item.status <> 'archived'
    UNION ALL
    SELECT mine.item_id, near.item_id, false
    FROM item_places AS mine
    CROSS JOIN LATERAL places_around(collection, mine.sequence, mine.place, mine.item_id, before, after) AS near
    WHERE mine.collection_id = collection AND mine.item_id = ANY (ids);
END
$$;

-- The items that stand so near to one of these places that they are indexed by what stands there.
CREATE OR REPLACE FUNCTION reached_from(
    collection bigint, sequences text[], places double precision[], ids text[], before integer, after integer
) RETURNS TABLE (item_id text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM collections AS owner
    WHERE owner.collection_id = collection AND owner.tenant_id = current_tenant();
    IF NOT FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('collection %s is not the current tenant''s', collection);
    END IF;
    -- What stands after it has it before, and the other way round.
    RETURN QUERY
    SELECT DISTINCT near.item_id
    FROM unnest(sequences, places, ids) AS one (sequence, place, item_id)
    CROSS JOIN LATERAL places_around(collection, one.sequence, one.place, one.item_id, after, before) AS near;
END
$$;
ALTER FUNCTION window_parts(bigint, text[], integer, integer) OWNER TO @definer@;
ALTER FUNCTION reached_from(bigint, text[], double precision[], text[], integer, integer) OWNER TO @definer@;

REVOKE ALL ON FUNCTION sequence_of(jsonb, jsonb), place_of(jsonb, timestamptz, jsonb),
    places_around(bigint, text, double precision, text, integer, integer),
    window_parts(bigint, text[], integer, integer),
    reached_from(bigint, text[], double precision[], text[], integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sequence_of(jsonb, jsonb), place_of(jsonb, timestamptz, jsonb),
    window_parts(bigint, text[], integer, integer),
    reached_from(bigint, text[], double precision[], text[], integer, integer) TO @app@;
GRANT EXECUTE ON FUNCTION places_around(bigint, text, double precision, text, integer, integer) TO @definer@;
