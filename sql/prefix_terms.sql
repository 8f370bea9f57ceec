-- The collection's terms that a word beginning so can have, the 64 most frequent: those that begin so themselves, and those
-- that the configuration makes of such a word ("interesti" begins "interesting", whose term is "interest"). The endings are
-- common ones of languages with stemmers; what they make of the prefix counts only if one of the two begins the other.
CREATE OR REPLACE FUNCTION prefix_terms(collection bigint, config regconfig, prefix text)
RETURNS TABLE (lexeme integer, document_frequency integer)
LANGUAGE sql STABLE AS $$
    WITH asked AS MATERIALIZED (
        SELECT lower(usual_width(left(prefix, 200))) COLLATE "C" AS beginning
    ),
    stems AS MATERIALIZED (
        SELECT word.lexeme COLLATE "C" AS stem
        FROM asked, unnest(to_tsvector(config, (
            SELECT string_agg(beginning || ending, ' ')
            FROM unnest('{"",s,es,e,d,ed,g,ng,ing,n,on,ion,r,er,y,ly,en,ung,t,nt,ment,ation,able,al,ive,ness,ity}'::text[])
                AS ending
        ))) AS word
        WHERE starts_with(beginning, word.lexeme)
    )
    SELECT known.lexeme, known.document_frequency
    FROM (
        SELECT known.lexeme, known.document_frequency
        FROM asked, term_statistics AS known
        WHERE known.collection_id = collection AND known.document_frequency > 0 AND asked.beginning <> ''
            AND known.term >= asked.beginning AND known.term < asked.beginning || U&'\+10FFFF'
        UNION
        SELECT known.lexeme, known.document_frequency
        FROM stems JOIN term_statistics AS known
            ON known.collection_id = collection AND known.term = stems.stem AND known.document_frequency > 0
    ) AS known
    ORDER BY known.document_frequency DESC, known.lexeme
    LIMIT 64
$$;

GRANT EXECUTE ON FUNCTION prefix_terms(bigint, regconfig, text) TO @app@, @definer@;
REVOKE ALL ON FUNCTION prefix_terms(bigint, regconfig, text) FROM PUBLIC;
