-- A text's lexemes with their number, frequency and spelling: the collection's text search configuration, and bigrams for
-- scripts that write no spaces (Chinese, Japanese, Korean, Thai), which no configuration of PostgreSQL can split.
-- endings: also the last character of each run of such a script. With it every character begins some term, so that one
-- character is found by the terms that begin with it. Items are analyzed so, queries are not.
-- Reads the first 200,000 characters, and of what has spaces about the first 200,000 bytes: a tsvector holds at most
-- 1 MB, and words joined by hyphens take four times their own length in it.
CREATE OR REPLACE FUNCTION analyze_text(collection bigint, config regconfig, content text, endings boolean)
RETURNS TABLE (lexeme integer, frequency integer, term text)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH given AS (
        SELECT usual_width(left(content, 200000)) AS text
    ),
    input AS (
        SELECT text, text ~ ('[' || unspaced() || ']') AS has_unspaced FROM given
    ),
    spaced AS (
        SELECT
            CASE WHEN has_unspaced THEN regexp_replace(text, '[' || unspaced() || ']+', ' ', 'g') ELSE text END AS text
        FROM input
    ),
    terms AS (
        SELECT word.lexeme AS term, coalesce(cardinality(word.positions), 1) AS occurrences
        FROM
            spaced,
            unnest(to_tsvector(config, left(
                text, (200000 * length(text)::bigint / greatest(octet_length(text), 1))::integer
            ))) AS word
        UNION ALL
        SELECT pair.term, 1
        FROM
            input,
            regexp_matches(CASE WHEN has_unspaced THEN text ELSE '' END, '([' || unspaced() || ']+)', 'g') AS run,
            -- Each character with the next; one that stands alone, by itself. (substr would count from the start each time.)
            LATERAL (
                SELECT
                    coalesce(one || lead(one) OVER (ORDER BY place), CASE WHEN endings OR place = 1 THEN one END) AS term
                FROM string_to_table(run[1], NULL) WITH ORDINALITY AS characters (one, place)
            ) AS pair
        WHERE pair.term IS NOT NULL
    )
    SELECT lexeme_id(collection, term), sum(occurrences)::integer, min(term) FROM terms GROUP BY 1
$$;

GRANT EXECUTE ON FUNCTION analyze_text(bigint, regconfig, text, boolean) TO @app@, @definer@;
REVOKE ALL ON FUNCTION analyze_text(bigint, regconfig, text, boolean) FROM PUBLIC;
