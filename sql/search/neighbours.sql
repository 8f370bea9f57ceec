-- The places of items in their sequences, and the indexing of items together with their neighbours.

-- The sequence of an item, by the collection's setting; NULL: none. Long names are hashed, because the index contains
-- them.
CREATE OR REPLACE FUNCTION sequence_of(attributes jsonb, setting jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN jsonb_typeof(attributes -> (setting ->> 'sequence')) NOT IN ('string', 'number', 'boolean') THEN NULL
        WHEN octet_length(attributes ->> (setting ->> 'sequence')) <= 512 THEN attributes ->> (setting ->> 'sequence')
        ELSE md5(attributes ->> (setting ->> 'sequence'))
    END
$$;

-- The item's place in its sequence: a number, or a time in seconds; infinity if it has none. Items with equal places
-- are in order of their keys.
CREATE OR REPLACE FUNCTION place_of(attributes jsonb, occurred_at timestamptz, setting jsonb) RETURNS double precision
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(
        CASE
            WHEN setting ->> 'order' = 'occurred_at' THEN extract(epoch FROM occurred_at)::double precision
            WHEN jsonb_typeof(attributes -> (setting ->> 'order')) = 'number' THEN
                attribute_number(attributes -> (setting ->> 'order'))
            WHEN jsonb_typeof(attributes -> (setting ->> 'order')) = 'string' THEN
                extract(epoch FROM attribute_time(attributes ->> (setting ->> 'order')))::double precision
        END, 'Infinity')
$$;

-- The items nearest to a place, up to a number on each side, without the item at the place itself.
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

-- The items whose texts each of these items is indexed by: itself and its neighbours. It runs with its owner's rights,
-- because text_lt is not leakproof, so that a policy would exclude the index; so it checks the tenant first.
CREATE OR REPLACE FUNCTION window_parts(collection bigint, ids text[], before integer, after integer)
RETURNS TABLE (item_id text, part_id text, is_own boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM check_tenant(collection);
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

-- The items close enough to one of these places to be indexed together with the item there.
CREATE OR REPLACE FUNCTION reached_from(
    collection bigint, sequences text[], places double precision[], ids text[], before integer, after integer
) RETURNS TABLE (item_id text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM check_tenant(collection);
    -- An item after the place has the place among its preceding ones, and vice versa.
    RETURN QUERY
    SELECT DISTINCT near.item_id
    FROM unnest(sequences, places, ids) AS one (sequence, place, item_id)
    CROSS JOIN LATERAL places_around(collection, one.sequence, one.place, one.item_id, after, before) AS near;
END
$$;

-- The places that follow from these items, in a collection with that setting of neighbours.
CREATE OR REPLACE FUNCTION places_of(collection bigint, ids text[], setting jsonb)
RETURNS TABLE (item_id text, sequence text, place double precision, text_hash bytea)
LANGUAGE sql STABLE AS $$
    SELECT
        item.item_id, sequence_of(item.attributes, setting) COLLATE "C",
        place_of(item.attributes, item.occurred_at, setting), item.text_hash
    FROM items AS item
    WHERE item.collection_id = collection AND item.item_id = ANY (ids) AND item.status <> 'archived'
        AND sequence_of(item.attributes, setting) IS NOT NULL
$$;

-- Updates the places of these items, and returns the items to index again: these, and in a collection with neighbours
-- those whose window contains or contained one of them, if its place or text has changed. It mixes the vectors of
-- those. The caller holds the collection's totals.
CREATE OR REPLACE FUNCTION place_items(collection bigint, ids text[]) RETURNS text[]
LANGUAGE plpgsql
SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan SET enable_nestloop = off AS $$
DECLARE
    setting jsonb;
    space bigint;
    sequences text[];
    places double precision[];
    moved text[];
    concerned text[];
    mixed text[];
BEGIN
    SELECT owner.neighbours INTO setting FROM collections AS owner WHERE owner.collection_id = collection;
    IF setting IS NULL THEN
        RETURN ids;
    END IF;

    WITH fresh AS MATERIALIZED (
        SELECT * FROM places_of(collection, ids, setting)
    ),
    former AS MATERIALIZED (
        SELECT known.item_id, known.sequence, known.place, known.text_hash FROM item_places AS known
        WHERE known.collection_id = collection AND known.item_id = ANY (ids)
    ),
    changed AS MATERIALIZED (
        (SELECT 'former' AS side, gone.* FROM (SELECT * FROM former EXCEPT SELECT * FROM fresh) AS gone)
        UNION ALL
        (SELECT 'fresh', made.* FROM (SELECT * FROM fresh EXCEPT SELECT * FROM former) AS made)
    ),
    removed AS (
        DELETE FROM item_places AS known
        WHERE known.collection_id = collection AND known.item_id = ANY (ids)
            AND known.item_id NOT IN (SELECT fresh.item_id FROM fresh)
    ),
    placed AS (
        INSERT INTO item_places (collection_id, item_id, sequence, place, text_hash)
        SELECT collection, changed.item_id, changed.sequence, changed.place, changed.text_hash
        FROM changed WHERE changed.side = 'fresh'
        ON CONFLICT (collection_id, item_id) DO UPDATE SET
            sequence = excluded.sequence, place = excluded.place, text_hash = excluded.text_hash
    )
    SELECT array_agg(changed.sequence), array_agg(changed.place), array_agg(changed.item_id)
    INTO sequences, places, moved FROM changed;

    -- Without the vector in its space, an archived item has no own vector either.
    DELETE FROM own_vectors AS own
    WHERE own.collection_id = collection AND own.item_id = ANY (ARRAY(
        SELECT item.item_id FROM items AS item
        WHERE item.collection_id = collection AND item.item_id = ANY (ids) AND item.status = 'archived'
    ));

    SELECT array_agg(one.item_id) INTO concerned FROM (
        SELECT unnest(ids) AS item_id
        UNION
        SELECT reached.item_id FROM reached_from(
            collection, sequences, places, moved,
            (setting ->> 'before')::integer, (setting ->> 'after')::integer
        ) AS reached
    ) AS one;
    -- An item without an own vector has nothing to mix; during a load, most items have none yet.
    FOREACH space IN ARRAY spaces_of(collection) LOOP
        mixed := ARRAY(
            SELECT own.item_id FROM own_vectors AS own
            WHERE own.collection_id = collection AND own.item_id = ANY (concerned) AND own.space_id = space
        );
        IF mixed <> '{}' THEN
            PERFORM mix_vectors(collection, space, setting, mixed);
        END IF;
    END LOOP;
    RETURN concerned;
END
$$;

-- Sets the neighbours by which a collection's items are indexed (NULL: none), computes the items' places, and begins
-- the walk that indexes them again. Writers wait meanwhile.
CREATE OR REPLACE FUNCTION set_neighbours(collection bigint, setting jsonb) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    -- Waits for writers that have read the former setting, so that the walk finds their items.
    PERFORM pg_advisory_xact_lock(writers_lock(collection));
    PERFORM hold_totals(collection);
    UPDATE collections AS owner SET neighbours = setting WHERE owner.collection_id = collection;
    DELETE FROM item_places AS known WHERE known.collection_id = collection;
    INSERT INTO item_places (collection_id, item_id, sequence, place, text_hash)
    SELECT
        collection, item.item_id, sequence_of(item.attributes, setting),
        place_of(item.attributes, item.occurred_at, setting), item.text_hash
    FROM items AS item
    WHERE item.collection_id = collection AND item.status <> 'archived'
        AND sequence_of(item.attributes, setting) IS NOT NULL
    ON CONFLICT DO NOTHING;
    UPDATE collection_statistics AS total SET windowing_after = '' WHERE total.collection_id = collection;
END
$$;

-- Indexes the next items of a collection by the present setting of neighbours; returns their number, 0 or NULL when all
-- are done. The position is stored in windowing_after, so that an interrupted walk resumes, and all callers share it.
-- At its end the measurements of HNSW indexes are deleted: they are of the former vectors, which the graphs still hold.
CREATE OR REPLACE FUNCTION reindex_windows(collection bigint, step integer) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    arrived text;
    setting jsonb;
    space bigint;
    page text[];
BEGIN
    SELECT total.windowing_after INTO arrived
    FROM collection_statistics AS total WHERE total.collection_id = collection FOR UPDATE;
    IF arrived IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT owner.neighbours INTO setting FROM collections AS owner WHERE owner.collection_id = collection;

    SELECT array_agg(one.item_id ORDER BY one.item_id) INTO page FROM (
        SELECT item.item_id FROM items AS item
        WHERE item.collection_id = collection AND item.item_id > arrived AND item.status <> 'archived'
        ORDER BY item.item_id LIMIT step
    ) AS one;
    PERFORM reindex_terms(collection, page);
    PERFORM settle_statistics(collection, coalesce(cardinality(page), 0));
    FOREACH space IN ARRAY spaces_of(collection) LOOP
        IF setting IS NULL THEN
            PERFORM unmix_vectors(collection, space, page);
        ELSE
            PERFORM mix_vectors(collection, space, setting, page);
        END IF;
    END LOOP;
    IF page IS NULL THEN
        DELETE FROM ann_indexes AS known WHERE known.collection_id = collection;
    END IF;
    arrived := page[cardinality(page)];
    UPDATE collection_statistics AS total SET windowing_after = arrived WHERE total.collection_id = collection;
    RETURN cardinality(page);
END
$$;

ALTER FUNCTION window_parts OWNER TO @definer@;
ALTER FUNCTION reached_from OWNER TO @definer@;
GRANT EXECUTE ON FUNCTION sequence_of, place_of, places_of, place_items TO @app@, @definer@;
GRANT EXECUTE ON FUNCTION places_around TO @definer@;
GRANT EXECUTE ON FUNCTION window_parts, reached_from, set_neighbours, reindex_windows TO @app@;
