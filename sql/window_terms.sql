-- The terms that these items are indexed by, each text analyzed once: those of title and body, and in a collection with
-- neighbours its own so many times as they weigh, and those of its neighbours' bodies. Titles say what one item is.
CREATE OR REPLACE FUNCTION window_terms(collection bigint, ids text[])
RETURNS TABLE (item_id text, lexemes integer[], frequencies smallint[], spellings text[], length integer)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    config regconfig;
    setting jsonb;
BEGIN
    SELECT owner.text_search_config::regconfig, owner.neighbours INTO config, setting
    FROM collections AS owner WHERE owner.collection_id = collection;

    IF setting IS NULL THEN
        RETURN QUERY
        SELECT item.item_id, own.lexemes, own.frequencies, own.spellings, own.length
        FROM items AS item
        CROSS JOIN LATERAL (
            SELECT
                coalesce(array_agg(term.lexeme ORDER BY term.lexeme), '{}') AS lexemes,
                coalesce(array_agg(least(term.frequency, 32767)::smallint ORDER BY term.lexeme), '{}') AS frequencies,
                coalesce(array_agg(term.term ORDER BY term.lexeme), '{}') AS spellings,
                coalesce(sum(term.frequency), 0)::integer AS length
            FROM (
                SELECT found.lexeme, found.frequency, found.term
                FROM analyze_text(collection, config, item.title || E'\n' || item.body, true) AS found
                ORDER BY found.frequency DESC, found.lexeme
                LIMIT 16000 -- the most that a sparsevec holds
            ) AS term
        ) AS own
        WHERE item.collection_id = collection AND item.item_id = ANY (ids) AND item.status <> 'archived';
        RETURN;
    END IF;

    RETURN QUERY
    WITH parts AS MATERIALIZED (
        SELECT part.item_id, part.part_id, part.is_own
        FROM window_parts(collection, ids, (setting ->> 'before')::integer, (setting ->> 'after')::integer) AS part
    ),
    texts AS MATERIALIZED (
        SELECT item.item_id, item.title, item.body FROM items AS item
        WHERE item.collection_id = collection AND item.status <> 'archived'
            AND item.item_id = ANY (ARRAY(SELECT DISTINCT part.part_id FROM parts AS part))
    ),
    words AS MATERIALIZED (
        SELECT one.item_id, false AS is_title, found.lexeme, found.frequency, found.term
        FROM texts AS one CROSS JOIN LATERAL analyze_text(collection, config, one.body, true) AS found
        UNION ALL
        SELECT one.item_id, true, found.lexeme, found.frequency, found.term
        FROM texts AS one CROSS JOIN LATERAL analyze_text(collection, config, one.title, true) AS found
        WHERE one.title <> ''
    ),
    terms AS (
        SELECT
            part.item_id, word.lexeme, min(word.term) AS term,
            sum(CASE WHEN part.is_own THEN (setting ->> 'own_weight')::integer ELSE 1 END * word.frequency) AS frequency
        FROM parts AS part
        JOIN words AS word ON word.item_id = part.part_id AND (part.is_own OR NOT word.is_title)
        GROUP BY part.item_id, word.lexeme
    ),
    ranked AS (
        SELECT term.*, row_number() OVER (PARTITION BY term.item_id ORDER BY term.frequency DESC, term.lexeme) AS place
        FROM terms AS term
    )
    SELECT
        part.item_id,
        coalesce(array_agg(term.lexeme ORDER BY term.lexeme) FILTER (WHERE term.lexeme IS NOT NULL), '{}'),
        coalesce(array_agg(least(term.frequency, 32767)::smallint ORDER BY term.lexeme)
            FILTER (WHERE term.lexeme IS NOT NULL), '{}'),
        coalesce(array_agg(term.term ORDER BY term.lexeme) FILTER (WHERE term.lexeme IS NOT NULL), '{}'),
        coalesce(sum(term.frequency), 0)::integer
    FROM parts AS part
    LEFT JOIN ranked AS term ON term.item_id = part.item_id AND term.place <= 16000
    WHERE part.is_own
    GROUP BY part.item_id;
END
$$;
REVOKE ALL ON FUNCTION window_terms(bigint, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION window_terms(bigint, text[]) TO @app@;
