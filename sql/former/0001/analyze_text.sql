-- A text's lexemes with their frequency: the collection's text search configuration, and bigrams for scripts
-- that write no spaces (Chinese, Japanese, Korean, Thai), which no configuration of PostgreSQL can split.
-- Reads the first 200,000 characters, and of what has spaces about the first 200,000 bytes: a tsvector holds at most
-- 1 MB, and words joined by hyphens take four times their own length in it.
CREATE OR REPLACE FUNCTION analyze_text(collection bigint, config regconfig, content text)
RETURNS TABLE (lexeme integer, frequency integer)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH input AS (
        SELECT
            left(content, 200000) AS text,
            left(content, 200000) ~ '[\u0E00-\u0E7F\u1100-\u11FF\u3040-\u30FF\u3400-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF]'
                AS has_unspaced
    ),
    spaced AS (
        SELECT CASE WHEN has_unspaced THEN regexp_replace(
            text, '[\u0E00-\u0E7F\u1100-\u11FF\u3040-\u30FF\u3400-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF]+', ' ', 'g'
        ) ELSE text END AS text
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
            regexp_matches(
                CASE WHEN has_unspaced THEN text ELSE '' END,
                '([\u0E00-\u0E7F\u1100-\u11FF\u3040-\u30FF\u3400-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF]+)', 'g'
            ) AS run,
            -- Each character with the next; one that stands alone, by itself. (substr would count from the start each time.)
            LATERAL (
                SELECT coalesce(one || lead(one) OVER (ORDER BY place), CASE WHEN place = 1 THEN one END) AS term
                FROM string_to_table(run[1], NULL) WITH ORDINALITY AS characters (one, place)
            ) AS pair
        WHERE pair.term IS NOT NULL
    )
    SELECT lexeme_id(collection, term), sum(occurrences)::integer FROM terms GROUP BY 1
$$;
