-- Spells out the terms whose spelling is not known, from the items that hold them; gives how many it has.
-- Prefixes are found by spelling. Writing an item spells out its terms too, so this is for what was written before.
CREATE OR REPLACE FUNCTION name_terms(collection bigint) RETURNS bigint
LANGUAGE sql SET search_path FROM CURRENT AS $$
    WITH named AS (
        UPDATE term_statistics AS known
        SET term = found.term
        FROM (
            SELECT term.lexeme, min(term.term) AS term
            FROM collections AS owner
            JOIN items AS item ON item.collection_id = owner.collection_id AND item.status <> 'archived'
            CROSS JOIN LATERAL analyze_text(
                collection, owner.text_search_config::regconfig, item.title || E'\n' || item.body, true
            ) AS term
            WHERE owner.collection_id = collection AND item.collection_id = collection
            GROUP BY term.lexeme
        ) AS found
        WHERE known.collection_id = collection AND known.lexeme = found.lexeme AND known.term IS NULL
        RETURNING 1
    )
    SELECT count(*) FROM named
$$;

GRANT EXECUTE ON FUNCTION name_terms(bigint) TO @app@;
REVOKE ALL ON FUNCTION name_terms(bigint) FROM PUBLIC;
