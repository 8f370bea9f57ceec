-- BM25 by the optional extension pg_textsearch.

-- Maintains the table textsearch_<collection>, if the collection has one: each active item's lexemes, as numbers of
-- analyze_text, each repeated by its frequency. So the extension counts the same terms as the portable index, in every
-- script. Each collection has a separate table, because statistics belong to an index, and version 1.0 ignores the
-- WHERE clause when it builds a partial index. index_terms calls it under the writers' lock, which is held exclusively
-- to make or drop such a table. are_gone: the items are removed next.
CREATE OR REPLACE FUNCTION textsearch_index(collection bigint, ids text[], are_gone boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    EXECUTE format(
        'DELETE FROM %I AS document WHERE document.item_id = ANY ($1) AND ($2 OR NOT EXISTS (
             SELECT FROM items AS item
             WHERE item.collection_id = %s AND item.item_id = document.item_id AND item.status <> ''archived''
         ))', 'textsearch_' || collection, collection)
    USING ids, are_gone;
    IF are_gone THEN
        RETURN;
    END IF;
    EXECUTE format(
        'INSERT INTO %I AS known (collection_id, item_id, words)
         SELECT
             item.collection_id, item.item_id,
             coalesce((
                 SELECT string_agg(repeat(term.lexeme || '' '', term.frequency), '''' ORDER BY term.lexeme)
                 FROM (
                     SELECT found.lexeme, found.frequency
                     FROM analyze_text(
                         item.collection_id, owner.text_search_config::regconfig, item.title || E''\n'' || item.body, true
                     ) AS found
                     ORDER BY found.frequency DESC, found.lexeme LIMIT 16000
                 ) AS term
             ), '''')
         FROM collections AS owner
         JOIN items AS item ON item.collection_id = owner.collection_id
         WHERE owner.collection_id = %s AND item.collection_id = %2$s
             AND item.item_id = ANY ($1) AND item.status <> ''archived''
         ON CONFLICT (collection_id, item_id) DO UPDATE SET words = excluded.words
         WHERE known.words <> excluded.words', 'textsearch_' || collection, collection)
    USING ids;
END
$$;

-- Whether a valid index of pg_textsearch serves the collection, and the library is loaded. The index has only items'
-- own words, so it does not serve a collection whose items are indexed with their neighbours. In PL/pgSQL, because each
-- search by words asks, and without the library no query runs.
CREATE OR REPLACE FUNCTION has_textsearch(collection bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    IF current_setting('pg_textsearch.library_version', true) IS NULL THEN
        RETURN false;
    END IF;
    RETURN EXISTS (
        SELECT FROM pg_index AS index
        WHERE index.indisvalid
            AND index.indexrelid = to_regclass(format('%I.%I', current_schema(), 'items_' || collection || '_bm25'))
    ) AND NOT EXISTS (
        SELECT FROM collections AS owner WHERE owner.collection_id = collection AND owner.neighbours IS NOT NULL
    );
END
$$;

-- The candidates of the extension for these lexemes. In a separate statement, because its planner reads scores from the
-- index only in a top-level query; otherwise it would compute each score from the words.
CREATE OR REPLACE FUNCTION textsearch_candidates(collection bigint, words text, result_limit integer)
RETURNS TABLE (item_id text)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    place name;
BEGIN
    SELECT home.nspname INTO place
    FROM pg_extension AS extension JOIN pg_namespace AS home ON home.oid = extension.extnamespace
    WHERE extension.extname = 'pg_textsearch';
    RETURN QUERY EXECUTE format(
        'SELECT document.item_id FROM %1$I AS document
         ORDER BY document.words OPERATOR(%2$I.<@>) %2$I.to_bm25query(%3$L, %4$L) LIMIT %5$s',
        'textsearch_' || collection, place, words, 'items_' || collection || '_bm25', result_limit);
END
$$;

-- The items of a collection that rank best for a query by BM25, found by pg_textsearch.
-- The extension rounds lengths, and counts former versions of an item until its index is rebuilt. So it only selects
-- somewhat more candidates than requested, and the scores are computed like those of the portable index, from the
-- collection's own statistics. It reads the tables of words with its owner's rights, so it checks the tenant first.
CREATE OR REPLACE FUNCTION textsearch_search(collection bigint, query text, result_limit integer)
RETURNS TABLE (item_id text, score real)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    query_weights sparsevec;
BEGIN
    PERFORM check_tenant(collection);

    query_weights := lexical_query(collection, query, '{}');
    IF query_weights IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY EXECUTE format(
        -- OFFSET separates the look-up, so that each candidate is looked up by its key, whatever the planner estimates.
        'SELECT terms.item_id, (-terms.distance)::real AS score
         FROM textsearch_candidates($2, $3, $4 + $4 / 4 + 20) AS found
         CROSS JOIN LATERAL (
             SELECT known.item_id, known.weights <#> $1 AS distance
             FROM item_terms AS known
             WHERE known.collection_id = %s AND known.item_id = found.item_id
             OFFSET 0
         ) AS terms
         WHERE terms.distance < 0
         ORDER BY score DESC, terms.item_id
         LIMIT $4', collection)
    USING
        query_weights, collection,
        -- The text of a sparse vector is {number:weight,...}/dimensions; the numbers are the query's known lexemes.
        translate(regexp_replace(query_weights::text, ':[^,}]*|/.*', '', 'g'), '{},', '   '),
        result_limit;
END
$$;

ALTER FUNCTION textsearch_search OWNER TO @definer@;
GRANT EXECUTE ON FUNCTION textsearch_index, has_textsearch TO @app@, @definer@;
GRANT EXECUTE ON FUNCTION textsearch_candidates TO @definer@;
GRANT EXECUTE ON FUNCTION textsearch_search TO @app@;
