-- The terms of a query that the collection knows, with their document frequency and their inverse document
-- frequency: idf = ln(1 + (N - n + 0.5) / (n + 0.5)). The rarest, where there are more than a sparsevec holds.
CREATE OR REPLACE FUNCTION query_terms(collection bigint, query text)
RETURNS TABLE (lexeme integer, document_frequency integer, idf real)
LANGUAGE sql STABLE AS $$
    SELECT
        known.lexeme, known.document_frequency,
        ln(1 + (greatest(total.documents - known.document_frequency, 0) + 0.5)
            / (known.document_frequency + 0.5))::real
    FROM collections AS owner
    JOIN collection_statistics AS total ON total.collection_id = owner.collection_id
    CROSS JOIN LATERAL analyze_text(collection, owner.text_search_config::regconfig, query) AS term
    JOIN term_statistics AS known
        ON known.collection_id = collection AND known.lexeme = term.lexeme AND known.document_frequency > 0
    WHERE owner.collection_id = collection
    ORDER BY known.document_frequency, known.lexeme
    LIMIT 16000
$$;
