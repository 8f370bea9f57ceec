-- Says by which neighbours a collection's items are indexed (NULL: by none), finds their places, and begins the walk that
-- indexes them anew. Writers wait meanwhile.
CREATE OR REPLACE FUNCTION set_neighbours(collection bigint, setting jsonb) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    -- Who stores vectors reads the setting first, and is waited for: the walk is to find what was stored by another one.
    PERFORM pg_advisory_xact_lock(hashtextextended('retrieval neighbours ' || current_schema(), collection));
    INSERT INTO collection_statistics (collection_id, documents, total_length) VALUES (collection, 0, 0)
    ON CONFLICT (collection_id) DO NOTHING;
    PERFORM FROM collection_statistics AS total WHERE total.collection_id = collection FOR UPDATE;
    UPDATE collections AS owner SET neighbours = setting WHERE owner.collection_id = collection;
    DELETE FROM item_places AS known WHERE known.collection_id = collection;
    INSERT INTO item_places (collection_id, item_id, sequence, place, text_hash)
    SELECT
        collection, item.item_id, sequence_of(item.attributes, setting),
        place_of(item.attributes, item.occurred_at, setting), item.text_hash
    FROM items AS item
    WHERE item.collection_id = collection AND item.status <> 'archived'
        AND sequence_of(item.attributes, setting) IS NOT NULL;
    UPDATE collection_statistics AS total SET windowing_after = '' WHERE total.collection_id = collection;
END
$$;
REVOKE ALL ON FUNCTION set_neighbours(bigint, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION set_neighbours(bigint, jsonb) TO @app@;

-- Indexes the next items of a collection by the neighbours that are set now; gives how many, 0 or NULL when all are done.
-- How far the walk has come stands in windowing_after, so that it is resumed after an interruption and shared by everyone
-- who takes a step.
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
    FOR space IN
        SELECT owner.space_id FROM collections AS owner
        WHERE owner.collection_id = collection AND owner.space_id IS NOT NULL
        UNION
        SELECT own.space_id FROM own_vectors AS own WHERE own.collection_id = collection AND own.item_id = ANY (page)
    LOOP
        IF setting IS NULL THEN
            PERFORM unmix_vectors(collection, space, page);
        ELSE
            PERFORM mix_vectors(collection, space, setting, page);
        END IF;
    END LOOP;
    UPDATE collection_statistics AS total SET windowing_after = page[cardinality(page)]
    WHERE total.collection_id = collection;
    RETURN cardinality(page);
END
$$;
REVOKE ALL ON FUNCTION reindex_windows(bigint, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION reindex_windows(bigint, integer) TO @app@;
