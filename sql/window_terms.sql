-- The terms that these items are indexed by, each text analyzed once: those of title and body, and in a collection with
-- neighbours its own so many times as they weigh, and those of its neighbours' bodies. Titles say what one item is.
-- The planner cannot know how many rows a window has, and would compare all with all.
CREATE OR REPLACE FUNCTION window_terms(collection bigint, ids text[])
RETURNS TABLE (item_id text, lexemes integer[], frequencies smallint[], spellings text[], length integer)
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan SET enable_nestloop = off AS $$
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
        SELECT part.item_id COLLATE "C" AS item_id, part.part_id COLLATE "C" AS part_id, part.is_own
        FROM window_parts(collection, ids, (setting ->> 'before')::integer, (setting ->> 'after')::integer) AS part
    ),
    texts AS MATERIALIZED (
        -- Numbers are grouped faster than keys.
        SELECT row_number() OVER () AS number, item.item_id, item.title, item.body FROM items AS item
        WHERE item.collection_id = collection AND item.status <> 'archived'
            AND item.item_id = ANY (ARRAY(SELECT DISTINCT part.part_id FROM parts AS part))
    ),
    words AS MATERIALIZED (
        SELECT one.number, false AS is_title, found.lexeme, found.frequency, found.term
        FROM texts AS one CROSS JOIN LATERAL analyze_text(collection, config, one.body, true) AS found
        UNION ALL
        -- Titles such as a speaker's name are the same again and again.
        SELECT one.number, true, titled.lexeme, titled.frequency, titled.term
        FROM texts AS one
        JOIN (
            SELECT given.title, found.lexeme, found.frequency, found.term
            FROM (SELECT DISTINCT every.title FROM texts AS every WHERE every.title <> '') AS given
            CROSS JOIN LATERAL analyze_text(collection, config, given.title, true) AS found
        ) AS titled ON titled.title = one.title
    ),
    numbered AS MATERIALIZED (
        SELECT
            mine.number, near.number AS part_number, part.is_own,
            CASE WHEN part.is_own THEN (setting ->> 'own_weight')::integer ELSE 1 END AS weight
        FROM parts AS part
        JOIN texts AS mine ON mine.item_id = part.item_id
        JOIN texts AS near ON near.item_id = part.part_id
    ),
    terms AS MATERIALIZED (
        -- A neighbour's words are spelt out with that one.
        SELECT
            part.number, word.lexeme, min(word.term) FILTER (WHERE part.is_own) AS term,
            sum(part.weight * word.frequency) AS frequency
        FROM numbered AS part
        JOIN words AS word ON word.number = part.part_number AND (part.is_own OR NOT word.is_title)
        GROUP BY part.number, word.lexeme
    ),
    whole AS MATERIALIZED (
        SELECT
            term.number,
            array_agg(term.lexeme ORDER BY term.lexeme) AS lexemes,
            array_agg(least(term.frequency, 32767)::smallint ORDER BY term.lexeme) AS frequencies,
            array_agg(term.term ORDER BY term.lexeme) AS spellings,
            sum(term.frequency)::integer AS length
        FROM terms AS term
        GROUP BY term.number
    )
    SELECT
        one.item_id,
        coalesce(cut.lexemes, whole.lexemes, '{}'), coalesce(cut.frequencies, whole.frequencies, '{}'),
        coalesce(cut.spellings, whole.spellings, '{}'), coalesce(cut.length, whole.length, 0)
    FROM texts AS one
    JOIN parts AS part ON part.is_own AND part.item_id = one.item_id
    LEFT JOIN whole ON whole.number = one.number
    LEFT JOIN LATERAL (
        SELECT
            array_agg(term.lexeme ORDER BY term.lexeme) AS lexemes,
            array_agg(term.frequency ORDER BY term.lexeme) AS frequencies,
            array_agg(term.spelling ORDER BY term.lexeme) AS spellings,
            sum(term.frequency)::integer AS length
        FROM (
            SELECT known.lexeme, known.frequency, known.spelling
            FROM unnest(whole.lexemes, whole.frequencies, whole.spellings) AS known (lexeme, frequency, spelling)
            WHERE cardinality(whole.lexemes) > 16000
            ORDER BY known.frequency DESC, known.lexeme
            LIMIT 16000
        ) AS term
    ) AS cut ON true;
END
$$;
REVOKE ALL ON FUNCTION window_terms(bigint, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION window_terms(bigint, text[]) TO @app@;
