-- The tables of embedding spaces, and their vectors.

-- Distributes a new table like the collections. On a single server it does nothing; a cluster replaces it
-- (cluster/tables.sql).
CREATE OR REPLACE FUNCTION place_by_collection(name text) RETURNS void LANGUAGE sql AS '';

-- The id of an embedding space, made with its table if it is new. Each space has a table whose column type has the
-- space's dimensions, so that it cannot contain other vectors, and dropping a space is dropping a table. It accepts
-- only values that the platform can make (retrieval/domain/items/embedding.py): no tenant could read or index a space
-- with others.
-- Vectors are stored plain (neither compressed nor out of line), which makes exact scans about three times faster. A
-- row also has the item's facets, so that filters on them need no other table (facet_search.sql).
CREATE OR REPLACE FUNCTION register_embedding_space(
    new_provider text, new_model text, new_revision text, new_dimensions integer,
    new_distance text, new_document_prefix text, new_query_prefix text
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    found_id bigint;
    vectors text;
BEGIN
    IF (
        char_length(new_provider) BETWEEN 1 AND 500 AND char_length(new_model) BETWEEN 1 AND 500
        AND char_length(new_revision) <= 500 AND char_length(new_document_prefix) <= 500
        AND char_length(new_query_prefix) <= 500 AND new_dimensions BETWEEN 1 AND 4000 AND new_distance = 'cosine'
    ) IS NOT TRUE THEN
        RAISE invalid_parameter_value USING MESSAGE =
            'an embedding space has a provider and a model of 1 to 500 characters, a revision and prefixes of at most '
            '500, 1 to 4000 dimensions and the distance cosine';
    END IF;
    SELECT space_id INTO found_id FROM embedding_spaces
    WHERE (provider, model, revision, dimensions, distance, document_prefix, query_prefix)
        = (new_provider, new_model, new_revision, new_dimensions, new_distance, new_document_prefix, new_query_prefix);
    IF found_id IS NOT NULL THEN
        RETURN found_id;
    END IF;

    INSERT INTO embedding_spaces
        (provider, model, revision, dimensions, distance, document_prefix, query_prefix)
    VALUES
        (new_provider, new_model, new_revision, new_dimensions, new_distance, new_document_prefix, new_query_prefix)
    ON CONFLICT DO NOTHING
    RETURNING space_id INTO found_id;
    IF found_id IS NULL THEN -- another transaction made it at the same moment, and has committed
        RETURN register_embedding_space(new_provider, new_model, new_revision, new_dimensions,
                                        new_distance, new_document_prefix, new_query_prefix);
    END IF;

    vectors := 'embeddings_' || found_id;
    EXECUTE format(
        'CREATE TABLE %1$I (
             collection_id bigint NOT NULL,
             item_id text COLLATE "C" NOT NULL,
             vector halfvec(%2$s) NOT NULL,
             content_hash bytea NOT NULL,
             facets uuid[] NOT NULL,
             PRIMARY KEY (collection_id, item_id),
             FOREIGN KEY (collection_id, item_id) REFERENCES items ON DELETE CASCADE
         ) WITH (autovacuum_vacuum_scale_factor = 0.05)', vectors, new_dimensions);
    -- No plan depends on statistics of these columns either (items.facets).
    EXECUTE format(
        'ALTER TABLE %I ALTER COLUMN vector SET STORAGE PLAIN, ALTER COLUMN vector SET STATISTICS 0,
             ALTER COLUMN facets SET STATISTICS 0', vectors);
    EXECUTE format('CREATE INDEX ON %I USING gin (facets) WITH (fastupdate = off)', vectors);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', vectors);
    EXECUTE format('CREATE POLICY app ON %I TO %I
                    USING (collection_id IN (SELECT c.collection_id FROM collections c))', vectors, @app_literal@);
    EXECUTE format('CREATE POLICY definer ON %I TO %I USING (true)', vectors, @definer_literal@);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO %I', vectors, @app_literal@);
    PERFORM place_by_collection(vectors);
    -- The function that store_vectors calls, because its statement is planned once a session. Planning an INSERT from a
    -- text for each item would take a third of the time of its insertion into an HNSW index.
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION %1$I(collection bigint, ids text[], vectors halfvec[], text_hashes bytea[]) RETURNS bigint
         LANGUAGE plpgsql
         SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $write$
         DECLARE
             stored bigint;
         BEGIN
             INSERT INTO %2$I AS known (collection_id, item_id, vector, content_hash, facets)
             SELECT collection, given.item_id, given.vector, given.text_hash, mine.facets
             FROM unnest(ids, vectors, text_hashes) AS given (item_id, vector, text_hash)
             CROSS JOIN LATERAL (
                 SELECT item.facets FROM items AS item
                 WHERE item.collection_id = collection AND item.item_id = given.item_id
                     AND item.text_hash = given.text_hash AND item.status <> ''archived''
                 LIMIT 1
                 FOR SHARE OF item
             ) AS mine
             WHERE given.vector IS NOT NULL
             ON CONFLICT (collection_id, item_id)
             DO UPDATE SET vector = excluded.vector, content_hash = excluded.content_hash, facets = excluded.facets
             WHERE (known.vector, known.content_hash, known.facets)
                 IS DISTINCT FROM (excluded.vector, excluded.content_hash, excluded.facets);
             GET DIAGNOSTICS stored = ROW_COUNT;
             RETURN stored;
         END $write$', 'write_' || vectors, vectors);
    EXECUTE format('REVOKE ALL ON FUNCTION %I FROM PUBLIC', 'write_' || vectors);
    -- nearest_with_clauses (facet_search.sql) for a plain conjunction: an item must have one facet of any_of and each of
    -- all_of. Its plan is kept too.
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION %1$I(
             collection bigint, query halfvec, any_of uuid[], all_of uuid[], few bigint, depth bigint
         )
         RETURNS TABLE (item_id text, score double precision)
         LANGUAGE plpgsql STABLE SECURITY DEFINER
         SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $find$
         #variable_conflict use_column
         BEGIN
             PERFORM check_tenant(collection);
             RETURN QUERY
             WITH matching AS MATERIALIZED (
                 SELECT known.item_id, known.vector <#> query AS distance FROM %2$I AS known
                 WHERE known.facets && any_of AND known.facets @> all_of AND known.collection_id + 0 = collection
                 LIMIT few + 1
             ),
             counted AS MATERIALIZED (SELECT count(*) AS matches FROM matching)
             (
                 SELECT near.item_id, -near.distance FROM matching AS near
                 WHERE ((SELECT counted.matches FROM counted) > few) IS NOT TRUE
                 ORDER BY near.distance, near.item_id LIMIT depth
             )
             UNION ALL SELECT NULL, counted.matches FROM counted WHERE (counted.matches > few) IS NOT TRUE;
         END $find$', 'nearest_in_' || vectors, vectors);
    EXECUTE format('REVOKE ALL ON FUNCTION %I FROM PUBLIC', 'nearest_in_' || vectors);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %I TO %I', 'nearest_in_' || vectors, @app_literal@);
    RETURN found_id;
END
$$;

-- Computes the vectors of these items again in a space's table: the mean of an item's own vector, multiplied by its
-- weight, and of its neighbours' vectors, each of length 1. A neighbour without a vector is left out: once it has one,
-- this item is mixed again. The caller holds the collection's totals, so that nobody mixes with a vector that is being
-- replaced.
-- The planner cannot estimate the number of rows of a window, and would compare all rows with all.
CREATE OR REPLACE FUNCTION mix_vectors(collection bigint, space bigint, setting jsonb, ids text[]) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan SET enable_nestloop = off AS $$
DECLARE
    -- The windows: an item, one of its parts, and the weight of that part.
    wholes text[];
    parts text[];
    weights integer[];
    unmixed text[];
BEGIN
    SELECT
        array_agg(part.item_id), array_agg(part.part_id),
        array_agg(CASE WHEN part.is_own THEN (setting ->> 'own_weight')::integer ELSE 1 END)
    INTO wholes, parts, weights
    FROM window_parts(collection, ids, (setting ->> 'before')::integer, (setting ->> 'after')::integer) AS part;
    unmixed := ARRAY(
        SELECT unnest(parts)
        EXCEPT
        SELECT own.item_id FROM own_vectors AS own
        WHERE own.collection_id = collection AND own.item_id = ANY (parts) AND own.space_id = space
    );
    -- A vector from before the collection had neighbours is not mixed: it is the item's own.
    IF unmixed <> '{}' THEN
        EXECUTE format(
            'INSERT INTO own_vectors (collection_id, item_id, space_id, vector, content_hash)
             SELECT known.collection_id, known.item_id, $2, known.vector, known.content_hash
             FROM %I AS known
             JOIN items AS item ON item.collection_id = $1 AND item.item_id = known.item_id AND item.item_id = ANY ($3)
             WHERE known.collection_id = $1 AND known.item_id = ANY ($3)
             ORDER BY known.item_id
             -- The remover of an item has locked it, and waits for the totals that are locked here.
             FOR KEY SHARE OF item SKIP LOCKED
             ON CONFLICT DO NOTHING', 'embeddings_' || space)
        USING collection, space, unmixed;
    END IF;

    EXECUTE format(
        'WITH own AS MATERIALIZED (
             SELECT one.item_id, one.vector, one.content_hash FROM own_vectors AS one
             WHERE one.collection_id = $1 AND one.space_id = $2 AND one.item_id = ANY ($4)
         ),
         sums AS MATERIALIZED (
             SELECT part.item_id, sum(own.vector::vector) AS vector
             FROM unnest($3, $4, $5) AS part (item_id, part_id, weight)
             JOIN own ON own.item_id = part.part_id
             CROSS JOIN generate_series(1, part.weight)
             GROUP BY part.item_id
         )
         INSERT INTO %I AS known (collection_id, item_id, vector, content_hash, facets)
         SELECT
             $1, own.item_id,
             -- Vectors that cancel each other out have no direction.
             CASE WHEN vector_norm(sums.vector) > 0.001 THEN l2_normalize(sums.vector)::halfvec ELSE own.vector END,
             own.content_hash,
             (SELECT item.facets FROM items AS item WHERE item.collection_id = $1 AND item.item_id = own.item_id)
         FROM sums
         JOIN own ON own.item_id = sums.item_id
         ORDER BY own.item_id
         ON CONFLICT (collection_id, item_id)
         DO UPDATE SET vector = excluded.vector, content_hash = excluded.content_hash, facets = excluded.facets
         WHERE (known.vector, known.content_hash, known.facets)
             IS DISTINCT FROM (excluded.vector, excluded.content_hash, excluded.facets)',
        'embeddings_' || space)
    USING collection, space, wholes, parts, weights;
END
$$;

-- Restores these items' own vectors. Own vectors of former texts are ignored.
CREATE OR REPLACE FUNCTION unmix_vectors(collection bigint, space bigint, ids text[]) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    EXECUTE format(
        'WITH gone AS (
             DELETE FROM own_vectors AS own
             WHERE own.collection_id = $1 AND own.space_id = $2 AND own.item_id = ANY ($3)
             RETURNING own.item_id, own.vector, own.content_hash
         )
         UPDATE %I AS known SET vector = gone.vector FROM gone
         WHERE known.collection_id = $1 AND known.item_id = gone.item_id AND known.content_hash = gone.content_hash',
        'embeddings_' || space)
    USING collection, space, ids;
END
$$;

-- The spaces of a collection's vectors: the one that searches use, and the one that it changes from or to
-- (reembeddings). The caller holds the writers' lock.
CREATE OR REPLACE FUNCTION spaces_of(collection bigint) RETURNS bigint[]
LANGUAGE sql STABLE
RETURN (
    SELECT array_remove(ARRAY[owner.space_id, moving.kept_id], NULL)
    FROM collections AS owner LEFT JOIN reembeddings AS moving ON moving.collection_id = collection
    WHERE owner.collection_id = collection
);

-- Whether an item waits for its vector in a space, where embedded_hash is the hash of the text that was embedded (NULL:
-- there is no vector). Archived items and items without text do not wait.
CREATE OR REPLACE FUNCTION waits_for_vector(status text, text_hash bytea, embedded_hash bytea) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN status <> 'archived' AND has_text(text_hash) AND text_hash IS DISTINCT FROM embedded_hash;

-- Stores the vectors of these items, each with its text's hash; returns the number of new or changed vectors. A vector
-- is left out if it is NULL, or its item was removed or archived, or has another text. So it locks the items, in the
-- order of ids, the same as everywhere.
CREATE OR REPLACE FUNCTION write_vectors(
    collection bigint, space bigint, ids text[], vectors halfvec[], text_hashes bytea[]
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM check_tenant(collection), pg_advisory_xact_lock_shared(writers_lock(collection));
    RETURN store_vectors(collection, space, ids, vectors, text_hashes);
END
$$;

-- The same for a caller that has checked the tenant and holds the writers' lock.
CREATE OR REPLACE FUNCTION store_vectors(
    collection bigint, space bigint, ids text[], vectors halfvec[], text_hashes bytea[]
) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    setting jsonb;
    has_own boolean;
    is_kept boolean;
    held text[];
    written text[];
    missing text[]; -- the space's table lacks their vectors
    concerned text[];
    stored bigint;
BEGIN
    -- After neighbours were unset, own vectors stay until the walk restores them.
    SELECT
        owner.neighbours, EXISTS (SELECT FROM own_vectors AS own WHERE own.collection_id = collection),
        owner.space_id = space OR space = ANY (spaces_of(collection))
    INTO setting, has_own, is_kept FROM collections AS owner WHERE owner.collection_id = collection;
    IF NOT is_kept THEN
        RETURN 0; -- the collection has left that space since the caller read of it
    END IF;
    IF setting IS NOT NULL OR has_own THEN
        SELECT array_agg(one.item_id) INTO held FROM (
            SELECT item.item_id
            FROM unnest(ids, vectors, text_hashes) AS given (item_id, vector, text_hash)
            JOIN items AS item
                ON item.collection_id = collection AND item.item_id = given.item_id
                    AND item.text_hash = given.text_hash AND item.status <> 'archived'
            WHERE given.vector IS NOT NULL
            ORDER BY item.item_id
            FOR SHARE OF item
        ) AS one;
        PERFORM hold_totals(collection);
    END IF;
    IF setting IS NULL THEN
        IF has_own THEN
            DELETE FROM own_vectors AS own
            WHERE own.collection_id = collection AND own.space_id = space AND own.item_id = ANY (held);
        END IF;
        EXECUTE format('SELECT %I($1, $2, $3, $4)', 'write_embeddings_' || space)
        INTO stored USING collection, ids, vectors, text_hashes;
        RETURN stored;
    END IF;

    EXECUTE 'WITH kept AS (
                 INSERT INTO own_vectors AS known (collection_id, item_id, space_id, vector, content_hash)
                 SELECT $1, given.item_id, $2, given.vector, given.text_hash
                 FROM unnest($4, $5, $6) AS given (item_id, vector, text_hash)
                 WHERE given.item_id = ANY ($3) AND given.vector IS NOT NULL
                 ON CONFLICT (collection_id, item_id, space_id)
                 DO UPDATE SET vector = excluded.vector, content_hash = excluded.content_hash
                 WHERE (known.vector, known.content_hash) IS DISTINCT FROM (excluded.vector, excluded.content_hash)
                 RETURNING known.item_id
             )
             SELECT array_agg(kept.item_id) FROM kept' INTO written USING collection, space, held, ids, vectors, text_hashes;
    -- An item whose own vector is the same as before can lack the mixed one.
    EXECUTE format(
        'SELECT ARRAY(
             SELECT unnest($3)
             EXCEPT
             SELECT known.item_id FROM %I AS known
             JOIN own_vectors AS own
                 ON own.collection_id = known.collection_id AND own.item_id = known.item_id AND own.space_id = $2
                     AND own.content_hash = known.content_hash
             WHERE known.collection_id = $1 AND known.item_id = ANY ($3)
         )', 'embeddings_' || space)
    INTO missing USING collection, space, held;
    SELECT array_agg(one.item_id) INTO concerned FROM (
        SELECT unnest(written || missing) AS item_id
        UNION
        SELECT reached.item_id
        FROM (
            SELECT array_agg(at.sequence) AS sequences, array_agg(at.place) AS places, array_agg(at.item_id) AS ids
            FROM item_places AS at WHERE at.collection_id = collection AND at.item_id = ANY (written)
        ) AS known
        CROSS JOIN LATERAL reached_from(
            collection, known.sequences, known.places, known.ids,
            (setting ->> 'before')::integer, (setting ->> 'after')::integer
        ) AS reached
    ) AS one;
    PERFORM mix_vectors(collection, space, setting, concerned);
    RETURN (SELECT count(DISTINCT one) FROM unnest(written || missing) AS one);
END
$$;

-- Updates the facets in the rows of these items' vectors in every space; the caller holds the items.
CREATE OR REPLACE FUNCTION write_facets(collection bigint, ids text[]) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    spaces bigint[] := spaces_of(collection);
    space bigint;
BEGIN
    IF spaces <> '{}' AND are_windowed(collection) THEN
        -- A writer that mixes a window's vectors has locked the totals, not the items.
        PERFORM hold_totals(collection);
    END IF;
    FOREACH space IN ARRAY spaces LOOP
        EXECUTE format(
            'UPDATE %I AS known SET facets = item.facets
             FROM items AS item
             WHERE known.collection_id = $1 AND known.item_id = ANY ($2)
                 AND item.collection_id = $1 AND item.item_id = known.item_id AND item.facets <> known.facets',
            'embeddings_' || space)
        USING collection, ids;
    END LOOP;
END
$$;

-- Removes the items' vectors from every space.
CREATE OR REPLACE FUNCTION remove_vectors(collection bigint, ids text[]) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    space bigint;
BEGIN
    FOREACH space IN ARRAY spaces_of(collection) LOOP
        EXECUTE format('DELETE FROM %I AS known WHERE known.collection_id = $1 AND known.item_id = ANY ($2)',
                       'embeddings_' || space)
        USING collection, ids;
    END LOOP;
END
$$;

-- Removes vectors of former texts of these items, which wait for new vectors then, so that no search meets a vector of a
-- former text. In the given space, only those of unembedded items: the others' vectors are replaced next.
CREATE OR REPLACE FUNCTION remove_outdated_vectors(collection bigint, space bigint, ids text[], unembedded text[])
RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    spaces bigint[] := spaces_of(collection);
    one bigint;
    outdated text[];
BEGIN
    IF unembedded = '{}' THEN
        spaces := array_remove(spaces, space);
    END IF;
    IF spaces <> '{}' AND are_windowed(collection) THEN
        PERFORM hold_totals(collection); -- as in write_facets
    END IF;
    FOREACH one IN ARRAY spaces LOOP
        outdated := CASE WHEN one = space THEN unembedded ELSE ids END;
        EXECUTE format(
            'DELETE FROM %I AS known USING items AS item
             WHERE known.collection_id = $1 AND known.item_id = ANY ($2)
                 AND item.collection_id = $1 AND item.item_id = known.item_id AND item.text_hash <> known.content_hash',
            'embeddings_' || one)
        USING collection, outdated;
        DELETE FROM own_vectors AS own USING items AS item
        WHERE own.collection_id = collection AND own.item_id = ANY (outdated) AND own.space_id = one
            AND item.collection_id = collection AND item.item_id = own.item_id AND item.text_hash <> own.content_hash;
    END LOOP;
END
$$;

ALTER FUNCTION register_embedding_space OWNER TO @definer@;
ALTER FUNCTION write_vectors OWNER TO @definer@;
GRANT EXECUTE ON FUNCTION place_by_collection, store_vectors TO @definer@;
GRANT EXECUTE ON FUNCTION mix_vectors, spaces_of, waits_for_vector, write_facets, remove_vectors,
    remove_outdated_vectors TO @app@, @definer@;
GRANT EXECUTE ON FUNCTION register_embedding_space, unmix_vectors, write_vectors TO @app@;
