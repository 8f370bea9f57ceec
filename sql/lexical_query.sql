-- The query's side of BM25: the idf of each of its terms that the collection knows. NULL where it knows none.
-- In PL/pgSQL, which keeps the plan for the connection's next search.
CREATE OR REPLACE FUNCTION lexical_query(collection bigint, query text, prefixes text[]) RETURNS sparsevec
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    RETURN (
        SELECT ('{' || string_agg(term.lexeme || ':' || term.idf, ',') || '}/1000000000')::sparsevec
        FROM query_terms(collection, query, prefixes) AS term
    );
END
$$;

GRANT EXECUTE ON FUNCTION lexical_query(bigint, text, text[]) TO @app@;
REVOKE ALL ON FUNCTION lexical_query(bigint, text, text[]) FROM PUBLIC;
