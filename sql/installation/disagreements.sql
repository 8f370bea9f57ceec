-- Checks whether the rows derived from a collection's items agree with them.

-- The rows of a collection that disagree with their source, by kind:
--   texts: the hash of an item's text is that of another text
--   words: the terms of an active item are not those of its text, or an archived item has terms
--   weights: an item's BM25 weights do not follow from its terms (not checked while weights are recomputed)
--   statistics: the frequency of a lexeme (its number), or a total ('totals'), is not the sum over the items' terms,
--     including differences that are not folded yet, or a lexeme is spelled like another
--   places: in a collection with neighbours, an item's place is not that of its attributes, time and text
--   filters: an item's tags, its time or its declared attributes differ from the tables for filters
--   vectors: a space in use has a vector of an archived item, or of a former text, or facets that are not the item's
--   mixtures: in a collection with neighbours, a space has an item's mixed vector and not its own of the same text
--   records: the arrays of a recorded search do not fit each other, or an item was shown twice
--   arms: an arm is not the sum of its events (retrieval/jobs/learning.py corrects it)
-- It reads the snapshot of the calling statement, and writes nothing.
CREATE OR REPLACE FUNCTION disagreements(collection bigint, tolerance double precision)
RETURNS TABLE (kind text, disagreeing text)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    page text[];
    after text := '';
    is_walked boolean; -- neighbours were set and the walk is not finished: words change
    average real; -- NULL: weights change
    setting jsonb;
    space bigint;
BEGIN
    SELECT owner.neighbours INTO setting FROM collections AS owner WHERE owner.collection_id = collection;
    SELECT
        total.windowing_after IS NOT NULL, CASE WHEN total.weighing_after IS NULL THEN total.weighed_length END
    INTO is_walked, average
    FROM collection_statistics AS total WHERE total.collection_id = collection;

    LOOP
        page := ARRAY(
            SELECT item.item_id FROM items AS item
            WHERE item.collection_id = collection AND item.item_id > after ORDER BY item.item_id LIMIT 500
        );
        EXIT WHEN page = '{}';
        RETURN QUERY
        SELECT 'texts', item.item_id FROM items AS item
        WHERE item.collection_id = collection AND item.item_id = ANY (page)
            AND item.text_hash <> text_hash_of(item.title, item.body);
        IF NOT coalesce(is_walked, false) THEN
            RETURN QUERY
            SELECT 'words', one.item_id
            FROM (
                SELECT own.item_id, own.lexemes, own.frequencies, own.length, own.text_hash
                FROM words_of(collection, page) AS own
            ) AS own
            FULL JOIN (
                SELECT terms.item_id, terms.lexemes, terms.frequencies, terms.length, terms.text_hash
                FROM item_terms AS terms
                WHERE terms.collection_id = collection AND terms.item_id = ANY (page)
            ) AS known ON known.item_id = own.item_id COLLATE "C"
            CROSS JOIN LATERAL (SELECT coalesce(own.item_id, known.item_id) AS item_id) AS one
            WHERE (own.lexemes, own.frequencies, own.length, own.text_hash)
                IS DISTINCT FROM (known.lexemes, known.frequencies, known.length, known.text_hash);
        END IF;
        RETURN QUERY
        WITH active AS MATERIALIZED (
            SELECT item.item_id, item.tags, item.created_at FROM items AS item
            WHERE item.collection_id = collection AND item.item_id = ANY (page) AND item.status <> 'archived'
        ),
        wanted AS MATERIALIZED (
            SELECT
                active.item_id, NULL AS name, false AS listed, tag AS as_text, NULL::double precision AS as_number,
                active.created_at AS as_time
            FROM active CROSS JOIN LATERAL unnest(active.tags) AS tag
            UNION
            SELECT held.item_id, held.name, held.listed, held.as_text, held.as_number, held.as_time
            FROM declared_values(collection, page) AS held
        ),
        known AS MATERIALIZED (
            SELECT tag.item_id, NULL, false, tag.tag, NULL::double precision, tag.created_at FROM item_tags AS tag
            WHERE tag.collection_id = collection AND tag.item_id = ANY (page)
            UNION
            SELECT one.item_id, one.name, one.listed, one.as_text, one.as_number, one.as_time FROM attribute_values AS one
            WHERE one.collection_id = collection AND one.item_id = ANY (page)
        )
        SELECT DISTINCT 'filters', one.item_id
        FROM (
            (SELECT * FROM wanted EXCEPT SELECT * FROM known)
            UNION ALL
            (SELECT * FROM known EXCEPT SELECT * FROM wanted)
        ) AS one;
        IF setting IS NOT NULL THEN
            RETURN QUERY
            WITH wanted AS MATERIALIZED (
                SELECT * FROM places_of(collection, page, setting)
            ),
            known AS MATERIALIZED (
                SELECT at.item_id, at.sequence, at.place, at.text_hash FROM item_places AS at
                WHERE at.collection_id = collection AND at.item_id = ANY (page)
            )
            SELECT DISTINCT 'places', one.item_id
            FROM (
                (SELECT * FROM wanted EXCEPT SELECT * FROM known)
                UNION ALL
                (SELECT * FROM known EXCEPT SELECT * FROM wanted)
            ) AS one;
        END IF;
        FOREACH space IN ARRAY spaces_of(collection) LOOP
            RETURN QUERY EXECUTE format(
                'SELECT ''vectors'', known.item_id
                 FROM %I AS known JOIN items AS item
                     ON item.collection_id = known.collection_id AND item.item_id = known.item_id
                 WHERE known.collection_id = $1 AND known.item_id = ANY ($2)
                     AND (item.status = ''archived'' OR item.facets <> known.facets
                         OR item.text_hash <> known.content_hash)',
                'embeddings_' || space)
            USING collection, page;
            IF setting IS NOT NULL AND NOT coalesce(is_walked, false) THEN
                RETURN QUERY EXECUTE format(
                    'SELECT ''mixtures'', known.item_id
                     FROM %I AS known LEFT JOIN own_vectors AS own
                         ON own.collection_id = $1 AND own.item_id = known.item_id AND own.space_id = $3
                         AND own.content_hash = known.content_hash
                     WHERE known.collection_id = $1 AND known.item_id = ANY ($2) AND own.item_id IS NULL',
                    'embeddings_' || space)
                USING collection, page, space;
            END IF;
        END LOOP;
        RETURN QUERY
        SELECT 'arms', one.item_id || CASE WHEN one.context = '' THEN '' ELSE ' in ' || one.context END
        FROM compared_arms(collection, page, tolerance) AS one WHERE one.is_off;
        after := page[cardinality(page)];
    END LOOP;

    RETURN QUERY
    SELECT 'weights', terms.item_id FROM item_terms AS terms
    WHERE terms.collection_id = collection AND average IS NOT NULL
        AND terms.weights <> bm25_weights(terms.lexemes, terms.frequencies, terms.length, average);

    RETURN QUERY
    SELECT 'statistics', one.lexeme::text
    FROM (
        SELECT word.lexeme, 1 AS difference
        FROM item_terms AS terms CROSS JOIN LATERAL unnest(terms.lexemes) AS word (lexeme)
        WHERE terms.collection_id = collection
        UNION ALL
        SELECT known.lexeme, -known.document_frequency FROM term_statistics AS known
        WHERE known.collection_id = collection AND coalesce(lexeme_id(collection, known.term) = known.lexeme, true)
        UNION ALL
        SELECT fresh.lexeme, -fresh.difference
        FROM statistics_changes AS change
        CROSS JOIN LATERAL unnest(change.lexemes, change.differences) AS fresh (lexeme, difference)
        WHERE change.collection_id = collection
    ) AS one
    GROUP BY one.lexeme HAVING sum(one.difference) <> 0;

    RETURN QUERY
    SELECT 'statistics', 'totals'
    FROM (
        SELECT count(*) AS documents, coalesce(sum(terms.length), 0) AS length FROM item_terms AS terms
        WHERE terms.collection_id = collection
        UNION ALL
        SELECT -total.documents, -total.total_length FROM collection_statistics AS total
        WHERE total.collection_id = collection
        UNION ALL
        SELECT -change.documents, -change.total_length FROM statistics_changes AS change
        WHERE change.collection_id = collection
    ) AS one
    HAVING sum(one.documents) <> 0 OR sum(one.length) <> 0;

    RETURN QUERY
    SELECT 'records', search.retrieval_id::text FROM retrievals AS search
    WHERE search.collection_id = collection AND (
        search.hits <> cardinality(search.shown_items)
        OR cardinality(search.shown_items) <> (SELECT count(DISTINCT shown) FROM unnest(search.shown_items) AS shown)
        OR coalesce(array_length(search.pool_scores, 2), cardinality(search.pool_items)) <> cardinality(search.pool_items)
        OR coalesce(array_length(search.pool_ranks, 1), cardinality(search.legs)) <> cardinality(search.legs)
    );
END
$$;

-- Makes the disagreeing rows of a collection's items again, except arms and records, and returns their number. Writers
-- wait, searches do not. The caller recounts the statistics.
CREATE OR REPLACE FUNCTION mend_disagreements(collection bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    ids text[];
    misplaced text[]; -- or with another text or vector, which their neighbours are indexed by
    misworded text[];
    unmixed text[]; -- their own vectors do not follow from anything: they wait for new ones
BEGIN
    PERFORM pg_advisory_xact_lock(writers_lock(collection));
    SELECT
        array_agg(one.disagreeing),
        array_agg(DISTINCT one.disagreeing) FILTER (WHERE one.kind IN ('texts', 'places', 'vectors')),
        array_agg(DISTINCT one.disagreeing) FILTER (WHERE one.kind IN ('words', 'weights')),
        array_agg(DISTINCT one.disagreeing) FILTER (WHERE one.kind = 'mixtures')
    INTO ids, misplaced, misworded, unmixed
    FROM disagreements(collection, 1) AS one
    WHERE one.kind IN ('texts', 'words', 'weights', 'places', 'filters', 'vectors', 'mixtures');
    IF ids IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM hold_totals(collection);
    -- An empty content hash, so that writing the former text again is a change.
    UPDATE items AS item SET text_hash = text_hash_of(item.title, item.body), content_hash = ''
    WHERE item.collection_id = collection AND item.item_id = ANY (ids)
        AND item.text_hash <> text_hash_of(item.title, item.body);
    PERFORM index_attributes(collection, ids);
    PERFORM write_facets(collection, ids);
    PERFORM remove_outdated_vectors(collection, NULL, ids, ids);
    PERFORM remove_vectors(collection, ARRAY(
        SELECT item.item_id FROM items AS item
        WHERE item.collection_id = collection AND item.item_id = ANY (ids) AND item.status = 'archived') || unmixed);
    -- The terms and vectors of a window follow from its items' places.
    misplaced := place_items(collection, coalesce(misplaced, '{}'));
    PERFORM reindex_terms(collection, ARRAY(SELECT unnest(misplaced) UNION SELECT unnest(misworded)));
    RETURN cardinality(ids);
END
$$;

GRANT EXECUTE ON FUNCTION disagreements, mend_disagreements TO @app@;
