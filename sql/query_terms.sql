-- The terms of a query that the collection knows, with their inverse document frequency
-- idf = ln(1 + (N - n + 0.5) / (n + 0.5)). The terms that a prefix stands for are one part, weighed as one term that is as
-- frequent as they are together; so are those of a single character of a script without spaces, which is taken for a
-- prefix. Every other term is a part of its own. The rarest, where there are more than a sparsevec holds.
CREATE OR REPLACE FUNCTION query_terms(collection bigint, query text, prefixes text[])
RETURNS TABLE (part bigint, lexeme integer, document_frequency bigint, idf real)
LANGUAGE sql STABLE AS $$
    WITH asked AS MATERIALIZED (
        SELECT owner.text_search_config::regconfig AS config, total.documents
        FROM collections AS owner
        JOIN collection_statistics AS total ON total.collection_id = owner.collection_id
        WHERE owner.collection_id = collection
    ),
    words AS MATERIALIZED (
        SELECT term.lexeme, term.term, length(term.term) = 1 AND term.term ~ ('[' || unspaced() || ']') AS begins
        FROM asked, analyze_text(collection, asked.config, query, false) AS term
    ),
    found AS (
        SELECT words.lexeme::bigint AS part, known.lexeme, known.document_frequency
        FROM words
        JOIN term_statistics AS known
            ON known.collection_id = collection AND known.lexeme = words.lexeme AND known.document_frequency > 0
        WHERE NOT words.begins
        UNION ALL
        SELECT -beginning.place, expanded.lexeme, expanded.document_frequency
        FROM asked, (
            SELECT row_number() OVER () AS place, prefix
            FROM (SELECT unnest(prefixes) UNION ALL SELECT words.term FROM words WHERE words.begins) AS given (prefix)
        ) AS beginning, prefix_terms(collection, asked.config, beginning.prefix) AS expanded
    ),
    parts AS (
        SELECT once.part, once.lexeme, sum(once.document_frequency) OVER (PARTITION BY once.part) AS together
        FROM (SELECT DISTINCT ON (found.lexeme) * FROM found ORDER BY found.lexeme, found.part DESC) AS once
    )
    SELECT
        parts.part, parts.lexeme, parts.together::bigint,
        ln(1 + (greatest(asked.documents - parts.together, 0) + 0.5)
            / (least(parts.together, asked.documents) + 0.5))::real
    FROM parts, asked
    ORDER BY parts.together, parts.part, parts.lexeme
    LIMIT 16000
$$;

GRANT EXECUTE ON FUNCTION query_terms(bigint, text, text[]) TO @app@, @definer@;
REVOKE ALL ON FUNCTION query_terms(bigint, text, text[]) FROM PUBLIC;
