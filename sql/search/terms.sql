-- The terms of a text, and the collection's terms of a query.

-- A lexeme's number within a collection: 1 to 1e9, a dimension of a sparsevec. It depends on the collection, so that an
-- entry of the shared GIN index has one collection's items, and the cost of a search does not grow with the number of
-- tenants. It begins with a part that is the same in all collections: BM25 sums in the order of the numbers, so that
-- rounding orders equal texts alike everywhere.
CREATE OR REPLACE FUNCTION lexeme_id(collection bigint, lexeme text) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (
    (hashtextextended(lexeme, 0) & 9223372036854775807) % 1000 * 1000000
    + (hashtextextended(lexeme, collection) & 9223372036854775807) % 1000000 + 1
)::integer;

-- The characters of scripts without spaces between words, for a regular expression's brackets: Thai, Hangul with its
-- letters, kana, Han with its iteration marks and the supplementary planes.
CREATE OR REPLACE FUNCTION unspaced() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '\u0E00-\u0E7F\u1100-\u11FF\u3005-\u3007\u3040-\u30FA\u30FC-\u30FF\u3400-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF'
    || '\U00020000-\U0003FFFF';

-- A text with composed characters: files of macOS and PDFs have é, が and 한 as several.
CREATE OR REPLACE FUNCTION composed(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN content ~ '[\u0300-\u036F\u1100-\u11FF\u3099\u309A]' THEN normalize(content, NFC) ELSE content END;

-- That text with ordinary letters instead of half-width kana, full-width letters and ligatures (ﬁ in PDFs). All other
-- characters stay: if ² became 2 in such texts alone, a query with ² would not find them.
CREATE OR REPLACE FUNCTION usual_widths(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN composed((
    SELECT string_agg(coalesce(normalize(part[1], NFKC), part[2]), '' ORDER BY place)
    FROM regexp_matches(content, '([\uFB00-\uFB06\uFF00-\uFFEF]+)|([^\uFB00-\uFB06\uFF00-\uFFEF]+)', 'g')
        WITH ORDINALITY AS found (part, place)
));

-- The usual form of a text: composed, and of ordinary letters. Most texts need neither, and no ASCII text does.
CREATE OR REPLACE FUNCTION usual_form(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN octet_length(content) = length(content) THEN content
    WHEN content ~ '[\uFB00-\uFB06\uFF00-\uFFEF]' THEN usual_widths(content)
    ELSE composed(content)
END;

-- A text with a space instead of each sign within what PostgreSQL's parser reads as one word though it has several
-- (read/write, java.io.IOException, ann@example.org, HDFS-1234), or as none (List<String>). Its length and tags stay.
CREATE OR REPLACE FUNCTION parted(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN regexp_replace(content, '(?<!<)/|\y[<.@](?=[[:alpha:]]{2})|\y-(?=\d)', ' ', 'g');

-- A text as its words are read: the first 200,000 characters, in the usual form, parted. In Turkish, I is the capital of
-- ı, and İ that of i, whatever the database's locale says.
CREATE OR REPLACE FUNCTION as_read(config regconfig, content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN parted(usual_form(CASE
    WHEN config = 'pg_catalog.turkish'::regconfig THEN translate(left(content, 200000), 'Iİ', 'ıi')
    ELSE left(content, 200000)
END));

-- A text with a space after each character of a script without spaces, so that every configuration can compare them by
-- position.
CREATE OR REPLACE FUNCTION spaced_out(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN content ~ ('[' || unspaced() || ']') THEN regexp_replace(content, '([' || unspaced() || '])', ' \1 ', 'g')
    ELSE content
END;

-- A text's lexemes with their number, frequency and spelling, by the collection's text search configuration, and by
-- bigrams for scripts without spaces (Chinese, Japanese, Korean, Thai), which no configuration of PostgreSQL can split.
-- endings: also the last character of each run of such a script, for items but not for queries, so that every character
-- begins some term, and a single character can be found as a prefix.
-- It reads the first 200,000 characters, and of text with spaces about the first 200,000 bytes: a tsvector holds at
-- most 1 MB, and words joined by hyphens take four times their own length.
CREATE OR REPLACE FUNCTION analyze_text(collection bigint, config regconfig, content text, endings boolean)
RETURNS TABLE (lexeme integer, frequency integer, term text)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT lexeme_id(collection, one.term), sum(one.occurrences)::integer, min(one.term)
    -- OFFSET 0, so that each is computed once, not for each use.
    FROM (SELECT as_read(config, content) AS text OFFSET 0) AS given
    CROSS JOIN LATERAL (SELECT given.text ~ ('[' || unspaced() || ']') AS has_unspaced OFFSET 0) AS scripts
    CROSS JOIN LATERAL (
        SELECT word.lexeme AS term, coalesce(cardinality(word.positions), 1) AS occurrences
        FROM
            (
                SELECT
                    CASE
                        WHEN has_unspaced THEN regexp_replace(given.text, '[' || unspaced() || ']+', ' ', 'g')
                        ELSE given.text
                    END AS text
            ) AS spaced,
            unnest(to_tsvector(config, left(
                spaced.text, (200000 * length(spaced.text)::bigint / greatest(octet_length(spaced.text), 1))::integer
            ))) AS word
        UNION ALL
        SELECT pair.term, 1
        FROM
            regexp_matches(
                CASE WHEN has_unspaced THEN given.text ELSE '' END, '([' || unspaced() || ']+)', 'g'
            ) AS run,
            -- Each character with the next, or a single one by itself. (substr would count from the beginning each
            -- time.)
            LATERAL (
                SELECT
                    coalesce(one || lead(one) OVER (ORDER BY place), CASE WHEN endings OR place = 1 THEN one END) AS term
                FROM string_to_table(run[1], NULL) WITH ORDINALITY AS characters (one, place)
            ) AS pair
        WHERE pair.term IS NOT NULL
    ) AS one
    GROUP BY 1
$$;

-- The collection's 64 most frequent terms for words with this prefix: terms with the prefix, and terms that the
-- configuration makes of such words ("interesti" begins "interesting", whose term is "interest"). It tries common
-- endings of languages with stemmers; a resulting term counts only if one of term and prefix begins the other. Of a
-- prefix with several words ("java.io.IOExc"), the last counts.
CREATE OR REPLACE FUNCTION prefix_terms(collection bigint, config regconfig, prefix text)
RETURNS TABLE (lexeme integer, document_frequency integer)
LANGUAGE sql STABLE AS $$
    WITH asked AS MATERIALIZED (
        SELECT regexp_replace(lower(as_read(config, left(prefix, 200))), '^.* ', '') COLLATE "C" AS beginning
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
        UNION
        -- Terms of differences that are not folded yet, unless the statistics have them.
        SELECT fresh.lexeme, 1
        FROM asked, statistics_changes AS change
        CROSS JOIN LATERAL unnest(change.lexemes, change.terms) AS fresh (lexeme, term)
        WHERE change.collection_id = collection AND asked.beginning <> '' AND (
                starts_with(fresh.term, asked.beginning) OR fresh.term = ANY (ARRAY(SELECT stems.stem FROM stems))
            )
            AND NOT EXISTS (
                SELECT FROM term_statistics AS known
                WHERE known.collection_id = collection AND known.lexeme = fresh.lexeme AND known.document_frequency > 0
            )
    ) AS known
    ORDER BY known.document_frequency DESC, known.lexeme LIMIT 64
$$;

-- The terms of a query that the collection knows, the rarest first, and the number of the collection's documents (at
-- least 1).
-- weights: the query's side of BM25, by lexeme its inverse document frequency idf = ln(1 + (N - n + 0.5) / (n + 0.5)).
-- parts, lexemes, frequencies: by term its part, its lexeme, and the document frequency of its part; all NULL if the
-- collection knows no term. A term of differences that are not folded yet counts as a term of a single item. The terms
-- of a prefix form one part, weighed like one term with their frequency together; so do those of a single character of
-- a script without spaces, which counts as a prefix. Every other term is a part by itself. If there are more terms than
-- a sparsevec can hold, the rarest.
-- In PL/pgSQL, in several steps, because it keeps the plans: in a single statement, merely setting up the expansion of
-- prefixes would take longer than everything else.
CREATE OR REPLACE FUNCTION query_terms(
    collection bigint, query text, prefixes text[],
    OUT weights sparsevec, OUT parts bigint[], OUT lexemes integer[], OUT frequencies bigint[], OUT documents bigint
)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    config regconfig;
    are_waiting boolean;
    words integer[];
    beginnings text[];
    -- The terms of the prefixes: the part, the lexeme, and the document frequency of the part.
    places bigint[];
    expansions integer[];
    totals bigint[];
BEGIN
    SELECT
        owner.text_search_config::regconfig, greatest(total.documents, 1),
        EXISTS (SELECT FROM statistics_changes AS change WHERE change.collection_id = collection)
    INTO config, documents, are_waiting
    FROM collections AS owner
    JOIN collection_statistics AS total ON total.collection_id = owner.collection_id
    WHERE owner.collection_id = collection;

    SELECT array_agg(word.lexeme) FILTER (WHERE NOT word.begins), prefixes || array_agg(word.term) FILTER (WHERE word.begins)
    INTO words, beginnings
    FROM (
        SELECT term.lexeme, term.term, length(term.term) = 1 AND term.term ~ ('[' || unspaced() || ']') AS begins
        FROM analyze_text(collection, config, query, false) AS term
    ) AS word;
    IF beginnings <> '{}' THEN
        SELECT array_agg(expanded.part), array_agg(expanded.lexeme), array_agg(expanded.together)
        INTO places, expansions, totals
        FROM (
            SELECT once.part, once.lexeme, sum(once.document_frequency) OVER (PARTITION BY once.part)::bigint AS together
            FROM (
                SELECT DISTINCT ON (known.lexeme) -beginning.place AS part, known.lexeme, known.document_frequency
                FROM unnest(beginnings) WITH ORDINALITY AS beginning (prefix, place)
                CROSS JOIN LATERAL prefix_terms(collection, config, beginning.prefix) AS known
                -- A word of the query is a part by itself.
                WHERE known.lexeme <> ALL (coalesce(words, '{}'))
                ORDER BY known.lexeme, beginning.place
            ) AS once
        ) AS expanded;
    END IF;

    SELECT
        ('{' || string_agg(
            term.lexeme || ':'
            || ln(1 + (greatest(documents - term.together, 0) + 0.5) / (least(term.together, documents) + 0.5))::real, ','
        ) || '}/1000000000')::sparsevec,
        array_agg(term.part), array_agg(term.lexeme), array_agg(term.together)
    INTO weights, parts, lexemes, frequencies
    FROM (
        SELECT word::bigint AS part, word AS lexeme, coalesce(known.document_frequency, 1)::bigint AS together
        FROM unnest(words) AS word
        LEFT JOIN term_statistics AS known
            ON known.collection_id = collection AND known.lexeme = word AND known.document_frequency > 0
        WHERE known.lexeme IS NOT NULL OR are_waiting
        UNION ALL
        SELECT * FROM unnest(places, expansions, totals)
        ORDER BY together, part, lexeme LIMIT 16000
    ) AS term;
END
$$;

GRANT EXECUTE ON FUNCTION lexeme_id, unspaced, composed, usual_widths, usual_form, parted, as_read, spaced_out,
    analyze_text, prefix_terms, query_terms TO @app@, @definer@;
