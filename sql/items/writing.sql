-- Writes, locks and removes items, with everything derived from them.

-- The key of the lock that writers of a collection share. A transaction that changes what all writers depend on
-- (declared attributes, neighbours, the average length) holds it exclusively. It is taken before any item is locked.
CREATE OR REPLACE FUNCTION writers_lock(collection bigint) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN hashtextextended('retrieval writers ' || current_schema(), collection);

-- Whether an item has a text to embed, by its text's hash. The hash of the empty text stands for neither title nor body.
CREATE OR REPLACE FUNCTION has_text(text_hash bytea) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN text_hash <> sha256('');

-- The hash of an item's text, title and body without the white space around them, as writers compute it
-- (retrieval/domain/items/item.py). The characters are those that Python strips.
CREATE OR REPLACE FUNCTION text_hash_of(title text, body text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN sha256(convert_to(
    btrim(
        title || E'\n' || body,
        E'\t\n\u000b\f\r\u001c\u001d\u001e\u001f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007'
        '\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000'
    ),
    'UTF8'
));

-- Locks a collection's totals, and creates them if they are missing.
CREATE OR REPLACE FUNCTION hold_totals(collection bigint) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM collection_statistics AS total WHERE total.collection_id = collection FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO collection_statistics (collection_id, documents, total_length) VALUES (collection, 0, 0)
        ON CONFLICT (collection_id) DO NOTHING;
        PERFORM FROM collection_statistics AS total WHERE total.collection_id = collection FOR UPDATE;
    END IF;
END
$$;

-- Whether a collection's items are indexed together with their neighbours, or were until a walk that is under way.
CREATE OR REPLACE FUNCTION are_windowed(collection bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM collections AS owner LEFT JOIN collection_statistics AS total ON total.collection_id = collection
        WHERE owner.collection_id = collection
            AND (owner.neighbours IS NOT NULL OR total.windowing_after IS NOT NULL)
    );
END
$$;

-- Locks and returns the items that exist, until the transaction ends. The order of locking is the same everywhere, so
-- that writers of stored items cannot deadlock. A caller that then creates items among them can, and is repeated.
CREATE OR REPLACE FUNCTION hold_items(collection bigint, ids text[]) RETURNS SETOF items
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(writers_lock(collection));
    RETURN QUERY
    SELECT * FROM items AS item WHERE item.collection_id = collection AND item.item_id = ANY (ids)
    ORDER BY item.item_id FOR NO KEY UPDATE;
END
$$;

-- Stores the items that are new or changed, and the given vectors (NULL: none; a NULL element: none for that item) in
-- their space's table, with everything derived from them. Ids are sorted and distinct; all arrays have the same length.
-- only_new: an existing item raises unique_violation, with its id as the detail. goes_on: this call is a part of a
-- larger write (settle_statistics).
-- formers: the former content hash of each item; NULL: it did not exist; empty: another writer has stored it meanwhile.
-- stored: the number of new or changed vectors. has_new_fields: whether an attribute, or a type of one, is the first in
-- the collection. created_at and updated_at: of a single item. drift: see settle_statistics.
-- Like all functions that write items, it runs with its owner's rights and checks the tenant first, because each policy
-- would cost a look-up in each statement. So each of its statements must name the collection.
CREATE OR REPLACE FUNCTION write_items(
    collection bigint, space bigint, only_new boolean, goes_on boolean,
    ids text[], kinds text[], titles text[], bodies text[], tag_lists text[], attribute_objects text[], statuses text[],
    sources text[], moments text[], hashes bytea[], text_hashes bytea[], vectors halfvec[],
    OUT formers bytea[], OUT stored bigint, OUT has_new_fields boolean, OUT created_at timestamptz,
    OUT updated_at timestamptz, OUT drift real
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    changing text[];
    written text[];
    changed text[];
    archived text[];
    unembedded text[];
    moved record;
BEGIN
    PERFORM check_tenant(collection), pg_advisory_xact_lock_shared(writers_lock(collection));
    stored := 0;
    has_new_fields := false;
    drift := 0;

    SELECT
        array_agg(known.content_hash ORDER BY given.place),
        array_agg(given.item_id ORDER BY given.place) FILTER (WHERE known.content_hash IS DISTINCT FROM given.hash)
    INTO formers, changing
    FROM unnest(ids, hashes) WITH ORDINALITY AS given (item_id, hash, place)
    -- Written so that each item is looked up by its key, whatever rows the plan was made for.
    LEFT JOIN LATERAL (
        SELECT item.content_hash FROM items AS item
        WHERE item.collection_id = collection AND item.item_id = given.item_id LIMIT 1
    ) AS known ON true;

    -- This one pass locks the items in order, including unchanged items whose vectors are to be stored.
    IF changing IS NOT NULL OR vectors IS NOT NULL THEN
        WITH made AS (
            INSERT INTO items AS known (
                collection_id, item_id, kind, title, body, tags, attributes, status, source, occurred_at, content_hash,
                text_hash
            )
            SELECT
                collection, given.item_id, given.kind, given.title, given.body, given.tags::text[],
                given.attributes::jsonb, given.status, given.source, given.moment::timestamptz, given.hash,
                given.text_hash
            FROM unnest(
                ids, kinds, titles, bodies, tag_lists, attribute_objects, statuses, sources, moments, hashes, text_hashes,
                formers
            ) AS given (
                item_id, kind, title, body, tags, attributes, status, source, moment, hash, text_hash, former
            )
            WHERE vectors IS NOT NULL OR given.hash IS DISTINCT FROM given.former
            ON CONFLICT (collection_id, item_id) DO UPDATE SET
                kind = excluded.kind, title = excluded.title, body = excluded.body, tags = excluded.tags,
                attributes = excluded.attributes, status = excluded.status, source = excluded.source,
                occurred_at = excluded.occurred_at, content_hash = excluded.content_hash,
                text_hash = excluded.text_hash, updated_at = excluded.updated_at
            WHERE known.content_hash <> excluded.content_hash OR only_new
            RETURNING
                known.item_id, known.status, known.xmax = 0 AS is_new, known.created_at, known.updated_at
        )
        SELECT
            array_agg(made.item_id), array_agg(made.item_id) FILTER (WHERE made.status = 'archived'),
            array_agg(made.item_id ORDER BY made.item_id) FILTER (WHERE NOT made.is_new),
            min(made.created_at), min(made.updated_at)
        INTO written, archived, changed, created_at, updated_at
        FROM made;
    END IF;
    IF only_new AND (changed IS NOT NULL OR written IS DISTINCT FROM ids) THEN
        RAISE unique_violation USING MESSAGE = 'an item already exists', DETAIL = coalesce(changed[1], (
            SELECT min(given.item_id) FROM unnest(ids, formers) AS given (item_id, former) WHERE given.former IS NOT NULL
        ));
    END IF;

    IF coalesce(cardinality(written), 0) - coalesce(cardinality(changed), 0)
        <> cardinality(formers) - cardinality(array_remove(formers, NULL)) THEN
        -- Another writer has stored some of them after the check, with the same or another text.
        formers := ARRAY(
            SELECT CASE
                WHEN given.former IS NOT NULL OR (mine.item_id IS NOT NULL AND other.item_id IS NULL) THEN given.former
                WHEN other.item_id IS NOT NULL THEN ''
                ELSE given.hash
            END
            FROM unnest(ids, hashes, formers) WITH ORDINALITY AS given (item_id, hash, former, place)
            LEFT JOIN unnest(written) AS mine (item_id) ON mine.item_id = given.item_id
            LEFT JOIN unnest(changed) AS other (item_id) ON other.item_id = given.item_id
            ORDER BY given.place
        );
    END IF;

    IF written IS NOT NULL THEN
        IF changed IS NOT NULL THEN
            unembedded := CASE WHEN vectors IS NULL THEN changed ELSE ARRAY(
                SELECT given.item_id FROM unnest(ids, vectors) AS given (item_id, vector)
                WHERE given.vector IS NULL AND given.item_id = ANY (changed)
            ) END;
            PERFORM remove_outdated_vectors(collection, space, changed, unembedded);
        END IF;
        has_new_fields := '{}' <> ANY (attribute_objects) AND know_attributes(collection, written) > 0;
        PERFORM index_terms(collection, written, are_new => changed IS NULL),
            index_attributes(collection, written, are_new => changed IS NULL);
        IF archived IS NOT NULL THEN
            PERFORM remove_vectors(collection, archived);
        END IF;
    END IF;
    IF vectors IS NOT NULL THEN
        stored := store_vectors(collection, space, ids, vectors, text_hashes);
    END IF;
    IF changed IS NOT NULL THEN
        FOR moved IN
            SELECT memory.item_id, item.happened_at
            FROM memories AS memory
            CROSS JOIN LATERAL (
                SELECT coalesce(one.occurred_at, one.created_at) AS happened_at FROM items AS one
                WHERE one.collection_id = collection AND one.item_id = memory.item_id LIMIT 1
            ) AS item
            WHERE memory.collection_id = collection AND memory.item_id = ANY (changed)
                AND memory.happened_at <> item.happened_at
            ORDER BY memory.item_id FOR NO KEY UPDATE OF memory
        LOOP
            UPDATE memories AS memory SET happened_at = moved.happened_at
            WHERE memory.collection_id = collection AND memory.item_id = moved.item_id;
            UPDATE memory_links AS link SET happened_at = moved.happened_at
            WHERE link.collection_id = collection AND link.item_id = moved.item_id;
        END LOOP;
        IF spaces_of(collection) = ARRAY[space] THEN
            changed := unembedded; -- the others' facets were written with their vectors or, in windows, by their mixing
        END IF;
    END IF;
    IF cardinality(changed) > 0 THEN
        PERFORM write_facets(collection, changed);
    END IF;
    IF cardinality(ids) > 1 THEN
        created_at := NULL;
        updated_at := NULL;
    ELSIF written IS NULL THEN
        SELECT item.created_at, item.updated_at INTO created_at, updated_at FROM items AS item
        WHERE item.collection_id = collection AND item.item_id = ids[1] AND item.content_hash = hashes[1];
    END IF;
    drift := settle_statistics(collection, coalesce(cardinality(written), 0), goes_on);
END
$$;

-- Stores which attributes these items have, and of which types; returns the number of attributes that are new, or have
-- a new type.
CREATE OR REPLACE FUNCTION know_attributes(collection bigint, ids text[]) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    names text[];
    kinds text[];
    news bigint;
BEGIN
    -- Known attributes are not written: all writers of a collection would wait for their locks.
    SELECT array_agg(entry.key), array_agg(jsonb_typeof(entry.value)) INTO names, kinds
    FROM items AS item CROSS JOIN LATERAL jsonb_each(item.attributes) AS entry
    WHERE item.collection_id = collection AND item.item_id = ANY (ids)
        AND NOT EXISTS (
            SELECT FROM collection_attributes AS seen
            WHERE seen.collection_id = collection AND seen.name = entry.key COLLATE "C"
                AND jsonb_typeof(entry.value) = ANY (seen.types)
        );
    IF names IS NULL THEN
        RETURN 0;
    END IF;
    INSERT INTO collection_attributes AS known (collection_id, name, types)
    SELECT collection, fresh.name, array_agg(DISTINCT fresh.type ORDER BY fresh.type)
    FROM unnest(names, kinds) AS fresh (name, type)
    GROUP BY fresh.name
    ORDER BY fresh.name COLLATE "C"
    ON CONFLICT (collection_id, name) DO UPDATE SET
        types = (SELECT array_agg(DISTINCT one ORDER BY one) FROM unnest(known.types || excluded.types) AS one)
    WHERE NOT known.types @> excluded.types;
    GET DIAGNOSTICS news = ROW_COUNT;
    RETURN news;
END
$$;

-- Archives the items, so that no search finds them. Returns the drift (settle_statistics).
CREATE OR REPLACE FUNCTION archive_items(collection bigint, ids text[]) RETURNS real
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    held text[];
BEGIN
    PERFORM check_tenant(collection);
    held := ARRAY(SELECT one.item_id FROM hold_items(collection, ids) AS one);
    -- An empty content hash, so that writing the same content again makes the item active again.
    UPDATE items AS item SET status = 'archived', content_hash = '', updated_at = now()
    WHERE item.collection_id = collection AND item.item_id = ANY (held);
    PERFORM index_terms(collection, held);
    PERFORM index_attributes(collection, held);
    PERFORM remove_vectors(collection, held);
    RETURN settle_statistics(collection, cardinality(held));
END
$$;

-- Removes the items with their terms and vectors; returns their number, and the drift. An item that another writer adds
-- a moment later is not affected.
CREATE OR REPLACE FUNCTION remove_items(
    collection bigint, ids text[], OUT removed bigint, OUT drift real
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    held text[];
BEGIN
    PERFORM check_tenant(collection), pg_advisory_xact_lock_shared(writers_lock(collection));
    -- Not FOR UPDATE: a writer that mixes a window's vectors references its items, and holds the totals awaited here.
    held := ARRAY(
        SELECT item.item_id FROM items AS item WHERE item.collection_id = collection AND item.item_id = ANY (ids)
        ORDER BY item.item_id FOR NO KEY UPDATE
    );
    removed := cardinality(held);
    drift := 0;
    IF removed = 0 THEN
        RETURN;
    END IF;
    -- First removed from the statistics, which count the rows of item_terms.
    PERFORM index_terms(collection, held, are_gone => true);
    DELETE FROM items AS item WHERE item.collection_id = collection AND item.item_id = ANY (held);
    drift := settle_statistics(collection, cardinality(held));
END
$$;

ALTER FUNCTION write_items OWNER TO @definer@;
ALTER FUNCTION archive_items OWNER TO @definer@;
ALTER FUNCTION remove_items OWNER TO @definer@;
GRANT EXECUTE ON FUNCTION writers_lock, has_text, text_hash_of, hold_totals, are_windowed, hold_items, know_attributes
    TO @app@, @definer@;
GRANT EXECUTE ON FUNCTION write_items, archive_items, remove_items TO @app@;
