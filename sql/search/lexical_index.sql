-- The lexical index: items' terms and weights, and the statistics that these rest on.

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

-- Brings the lexical index and the term statistics of these items up to date, exactly: an active item is indexed by its
-- terms (window_terms), an archived one is taken out. Lexemes are counted in order, so that writers cannot
-- deadlock. All rows of a collection are weighed with one average length, set by the first and moved by refresh_weights.
CREATE OR REPLACE FUNCTION reindex_terms(collection bigint, ids text[]) RETURNS bigint
LANGUAGE sql SET search_path FROM CURRENT AS $$
    WITH fresh AS MATERIALIZED (
        SELECT own.item_id, own.lexemes, own.frequencies, own.spellings, own.length
        FROM window_terms(collection, ids) AS own
    ),
    former AS MATERIALIZED (
        SELECT terms.lexemes, terms.length
        FROM item_terms AS terms
        WHERE terms.collection_id = collection AND terms.item_id = ANY (ids)
    ),
    counted AS (
        INSERT INTO term_statistics AS known (collection_id, lexeme, document_frequency, term)
        SELECT collection, change.lexeme, sum(change.by), min(change.term)
        FROM (
            SELECT unnest(lexemes) AS lexeme, unnest(spellings) AS term, 1 AS by FROM fresh
            UNION ALL
            SELECT unnest(lexemes), NULL, -1 FROM former
        ) AS change
        GROUP BY change.lexeme
        HAVING sum(change.by) <> 0
        ORDER BY change.lexeme
        ON CONFLICT (collection_id, lexeme)
        DO UPDATE SET
            document_frequency = known.document_frequency + excluded.document_frequency,
            term = coalesce(known.term, excluded.term)
    ),
    totals AS (
        INSERT INTO collection_statistics AS known (collection_id, documents, total_length, weighed_length)
        SELECT
            collection, sum(change.documents), sum(change.length),
            sum(change.length)::real / nullif(sum(change.documents), 0)
        FROM (
            SELECT count(*) AS documents, coalesce(sum(length), 0) AS length FROM fresh
            UNION ALL
            SELECT -count(*), -coalesce(sum(length), 0) FROM former
        ) AS change
        ON CONFLICT (collection_id) DO UPDATE SET
            documents = known.documents + excluded.documents,
            total_length = known.total_length + excluded.total_length,
            weighed_length = coalesce(
                known.weighed_length,
                (known.total_length + excluded.total_length)::real
                    / nullif(known.documents + excluded.documents, 0)
            )
        RETURNING known.weighed_length
    ),
    gone AS (
        DELETE FROM item_terms AS terms
        WHERE terms.collection_id = collection AND terms.item_id = ANY (ids)
            AND terms.item_id NOT IN (SELECT fresh.item_id FROM fresh)
    ),
    indexed AS (
        INSERT INTO item_terms (collection_id, item_id, lexemes, frequencies, length, weights)
        SELECT
            collection, fresh.item_id, fresh.lexemes, fresh.frequencies, fresh.length,
            bm25_weights(fresh.lexemes, fresh.frequencies, fresh.length, totals.weighed_length)
        FROM fresh, totals
        ON CONFLICT (collection_id, item_id) DO UPDATE SET
            lexemes = excluded.lexemes,
            frequencies = excluded.frequencies,
            length = excluded.length,
            weights = excluded.weights
        RETURNING 1
    )
    SELECT count(*) FROM indexed
$$;
REVOKE ALL ON FUNCTION reindex_terms(bigint, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION reindex_terms(bigint, text[]) TO @app@;

-- Brings the indexes that follow the texts of these items up to date, in one call: their lexical index and the term
-- statistics, and where neighbours are indexed together, those of the neighbours concerned. Call it in the transaction
-- that wrote the items: their row locks keep two writers of one item apart.
CREATE OR REPLACE FUNCTION index_terms(collection bigint, ids text[]) RETURNS bigint
LANGUAGE sql SET search_path FROM CURRENT AS $$
    -- The collection's totals are held first by everyone, so that no two writers wait for each other crosswise, and who
    -- comes second sees what the first one wrote.
    INSERT INTO collection_statistics (collection_id, documents, total_length) VALUES (collection, 0, 0)
    ON CONFLICT (collection_id) DO NOTHING;
    SELECT FROM collection_statistics AS total WHERE total.collection_id = collection FOR UPDATE;

    SELECT reindex_terms(collection, place_items(collection, ids));
$$;
REVOKE ALL ON FUNCTION index_terms(bigint, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION index_terms(bigint, text[]) TO @app@;

-- Weighs the next items of a collection again with its average length; gives how many, 0 or NULL when all are done.
-- How far the walk has come stands in weighing_after, so that it is resumed after an interruption and shared by
-- everyone who takes a step. Who writes terms holds the same row: the two never wait for each other crosswise.
CREATE OR REPLACE FUNCTION refresh_weights(collection bigint, step integer) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    place text;
    average real;
    weighed bigint;
BEGIN
    SELECT total.weighing_after, total.weighed_length INTO place, average
    FROM collection_statistics AS total
    WHERE total.collection_id = collection
    FOR UPDATE;
    IF place IS NULL THEN
        RETURN NULL;
    END IF;

    WITH next AS MATERIALIZED (
        SELECT terms.item_id
        FROM item_terms AS terms
        WHERE terms.collection_id = collection AND terms.item_id > place
        ORDER BY terms.item_id
        LIMIT step
    ),
    done AS (
        UPDATE item_terms AS terms
        SET weights = bm25_weights(terms.lexemes, terms.frequencies, terms.length, average)
        FROM next
        WHERE terms.collection_id = collection AND terms.item_id = next.item_id
        RETURNING terms.item_id
    )
    SELECT max(done.item_id), count(*) INTO place, weighed FROM done;

    UPDATE collection_statistics AS total SET weighing_after = place WHERE total.collection_id = collection;
    RETURN weighed;
END
$$;
REVOKE ALL ON FUNCTION refresh_weights(bigint, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION refresh_weights(bigint, integer) TO @app@;

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
