-- The document's side of BM25 as a sparse vector: tf (k1 + 1) / (tf + k1 (1 - b + b length / average)),
-- k1 = 1.2, b = 0.75 (Robertson, Zaragoza 2009). Its inner product with the query's idf is the BM25 score.
CREATE OR REPLACE FUNCTION bm25_weights(lexemes integer[], frequencies smallint[], length integer, average real)
RETURNS sparsevec
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT (
        '{' || coalesce(string_agg(
            lexeme || ':' || (frequency * 2.2::real
                / (frequency + 1.2::real * (0.25::real + 0.75::real * length / greatest(average, 1::real)))),
            ',' ORDER BY lexeme
        ), '') || '}/1000000000'
    )::sparsevec
    FROM unnest(lexemes, frequencies) AS term (lexeme, frequency)
$$;
REVOKE ALL ON FUNCTION bm25_weights(integer[], smallint[], integer, real) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION bm25_weights(integer[], smallint[], integer, real) TO @app@;
