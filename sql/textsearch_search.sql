-- Whether a valid index of the extension pg_textsearch serves the collection, and its library is loaded. It knows each
-- item's own words alone, so it serves none whose items are indexed with their neighbours.
CREATE OR REPLACE FUNCTION has_textsearch(collection bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT current_setting('pg_textsearch.library_version', true) IS NOT NULL AND EXISTS (
        SELECT FROM pg_index AS index
        WHERE index.indisvalid
            AND index.indexrelid = to_regclass(format('%I.%I', current_schema(), 'items_' || collection || '_bm25'))
    ) AND NOT EXISTS (
        SELECT FROM collections AS owner WHERE owner.collection_id = collection AND owner.neighbours IS NOT NULL
    )
$$;
REVOKE ALL ON FUNCTION has_textsearch(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION has_textsearch(bigint) TO @app@, @definer@;

-- The candidates that the extension names for these lexemes. Its planner reads a score from the index only where
-- the query stands by itself, as it does here; within another one it would compute each score anew from the words.
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
         ORDER BY document.words OPERATOR(%2$I.<@>) %2$I.to_bm25query(%3$L, %4$L)
         LIMIT %5$s',
        'textsearch_' || collection, place, words, 'items_' || collection || '_bm25', result_limit);
END
$$;
REVOKE ALL ON FUNCTION textsearch_candidates(bigint, text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION textsearch_candidates(bigint, text, integer) TO @definer@;

-- The items of a collection that rank best for a query by BM25, found by the extension pg_textsearch.
-- The extension rounds lengths and counts former versions of an item until its index is built anew, so it only names
-- the candidates, somewhat more than asked for; the scores are those of the portable way, from the collection's own
-- statistics. Tables of words are read with this function's own rights, so it checks the tenant first.
CREATE OR REPLACE FUNCTION textsearch_search(collection bigint, query text, result_limit integer)
RETURNS TABLE (item_id text, score real)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    query_weights sparsevec;
BEGIN
    PERFORM FROM collections AS owner
    WHERE owner.collection_id = collection AND owner.tenant_id = current_tenant();
    IF NOT FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('collection %s is not the current tenant''s', collection);
    END IF;

    query_weights := lexical_query(collection, query, '{}');
    IF query_weights IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY EXECUTE format(
        -- OFFSET keeps the look-up apart: each candidate is looked up by its key, however the planner counts.
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
        -- A sparse vector is written {number:weight,...}/dimensions; the numbers are the query's known lexemes.
        translate(regexp_replace(query_weights::text, ':[^,}]*|/.*', '', 'g'), '{},', '   '),
        result_limit;
END
$$;
ALTER FUNCTION textsearch_search(bigint, text, integer) OWNER TO @definer@;
REVOKE ALL ON FUNCTION textsearch_search(bigint, text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION textsearch_search(bigint, text, integer) TO @app@;
GRANT EXECUTE ON FUNCTION lexical_query(bigint, text, text[]) TO @definer@;
