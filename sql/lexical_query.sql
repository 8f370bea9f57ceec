-- The query's side of BM25: the idf of each of its terms that the collection knows. NULL where it knows none.
CREATE OR REPLACE FUNCTION lexical_query(collection bigint, query text) RETURNS sparsevec
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT ('{' || string_agg(term.lexeme || ':' || term.idf, ',') || '}/1000000000')::sparsevec
    FROM query_terms(collection, query) AS term
$$;
