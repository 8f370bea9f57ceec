-- Brings the places of these items up to date, and gives the items whose index that concerns: these, and in a collection
-- with neighbours those that had or have one of them in their window, if its place or its text is another now. The
-- vectors of those are mixed anew. Who calls it holds the collection's totals.
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
    SELECT owner.neighbours, owner.space_id INTO setting, space
    FROM collections AS owner WHERE owner.collection_id = collection;
    IF setting IS NULL THEN
        RETURN ids;
    END IF;

    WITH fresh AS MATERIALIZED (
        SELECT
            item.item_id, sequence_of(item.attributes, setting) COLLATE "C" AS sequence,
            place_of(item.attributes, item.occurred_at, setting) AS place, item.text_hash
        FROM items AS item
        WHERE item.collection_id = collection AND item.item_id = ANY (ids) AND item.status <> 'archived'
            AND sequence_of(item.attributes, setting) IS NOT NULL
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

    -- An archived item's own vector goes with the one that its space has.
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
    -- An item without a vector of its own has none to mix; most of those that are loaded at once have not.
    mixed := ARRAY(
        SELECT own.item_id FROM own_vectors AS own
        WHERE own.collection_id = collection AND own.item_id = ANY (concerned) AND own.space_id = space
    );
    IF mixed <> '{}' THEN
        PERFORM mix_vectors(collection, space, setting, mixed);
    END IF;
    RETURN concerned;
END
$$;
REVOKE ALL ON FUNCTION place_items(bigint, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION place_items(bigint, text[]) TO @app@;
