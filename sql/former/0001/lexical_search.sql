-- The items of a collection that rank best for a query by BM25, from the GIN index.
-- It finds the items that hold the query's rarest terms, as many terms as stay within match_budget items together
-- (always at least one), and ranks those by all terms. A lexeme's number is its collection's own, so the index alone
-- finds the collection's items; adding 0 keeps the planner from also reading the collection's whole key, and the
-- collection is still checked, because two numbers can collide. It owns its rights, because `&&` is not leakproof and a
-- policy would keep the planner from the index; so it checks the tenant first.
CREATE OR REPLACE FUNCTION lexical_search(collection bigint, query text, match_budget integer, result_limit integer)
RETURNS TABLE (item_id text, score real)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    query_weights sparsevec;
    rarest integer[];
BEGIN
    PERFORM FROM collections AS owner
    WHERE owner.collection_id = collection AND owner.tenant_id = current_tenant();
    IF NOT FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('collection %s is not the current tenant''s', collection);
    END IF;

    SELECT
        ('{' || string_agg(term.lexeme || ':' || term.idf, ',') || '}/1000000000')::sparsevec,
        array_agg(term.lexeme) FILTER (WHERE term.place = 1 OR term.matches <= match_budget)
    INTO query_weights, rarest
    FROM (
        SELECT
            known.lexeme, known.idf,
            row_number() OVER rarest_first AS place,
            sum(known.document_frequency) OVER rarest_first AS matches
        FROM query_terms(collection, query) AS known
        WINDOW rarest_first AS (ORDER BY known.document_frequency, known.lexeme)
    ) AS term;
    IF rarest IS NULL THEN
        RETURN;
    END IF;

    RETURN QUERY EXECUTE format(
        'SELECT terms.item_id, (-(terms.weights <#> $1))::real
         FROM item_terms AS terms
         WHERE terms.collection_id + 0 = %s AND terms.lexemes && $2
         ORDER BY terms.weights <#> $1, terms.item_id
         LIMIT $3', collection)
    USING query_weights, rarest, result_limit;
END
$$;
ALTER FUNCTION lexical_search(bigint, text, integer, integer) OWNER TO @definer@;
