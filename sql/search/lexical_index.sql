-- The lexical index: items' terms and weights, and the statistics for them.

-- The document's side of BM25 as a sparse vector: tf (k1 + 1) / (tf + k1 (1 - b + b length / average)), k1 = 1.2, b =
-- 0.75 (Robertson, Zaragoza 2009). Its inner product with the query's idf is the BM25 score.
CREATE OR REPLACE FUNCTION bm25_weights(lexemes integer[], frequencies smallint[], length integer, average real)
RETURNS sparsevec
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (
        '{' || coalesce(string_agg(
            lexeme || ':' || (frequency * 2.2::real
                / (frequency + 1.2::real * (0.25::real + 0.75::real * length / greatest(average, 1::real))))::real,
            ','
        ), '') || '}/1000000000'
    )::sparsevec
    FROM unnest(lexemes, frequencies) AS term (lexeme, frequency)
$$;

-- The terms by which these items are indexed: those of title and body, or in a collection with neighbours those of
-- their windows. Archived items have none.
CREATE OR REPLACE FUNCTION words_of(collection bigint, ids text[])
RETURNS TABLE (item_id text, lexemes integer[], frequencies smallint[], spellings text[], length integer, text_hash bytea)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    config regconfig;
    setting jsonb;
BEGIN
    SELECT owner.text_search_config::regconfig, owner.neighbours INTO config, setting
    FROM collections AS owner WHERE owner.collection_id = collection;
    IF setting IS NOT NULL THEN
        RETURN QUERY SELECT own.*, NULL::bytea FROM window_terms(collection, ids, config, setting) AS own;
        RETURN;
    END IF;

    RETURN QUERY
    SELECT item.item_id, own.lexemes, own.frequencies, own.spellings, own.length, item.text_hash
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
            ORDER BY found.frequency DESC, found.lexeme LIMIT 16000 -- the most that a sparsevec holds
        ) AS term
    ) AS own
    WHERE item.collection_id = collection AND item.item_id = ANY (ids) AND item.status <> 'archived';
END
$$;

-- The terms of these items in a collection with neighbours: an item's own terms, multiplied by its weight, and those of
-- its neighbours' bodies, without their titles. Each text is analyzed once.
-- The planner cannot estimate the number of rows of a window, and would compare all rows with all.
CREATE OR REPLACE FUNCTION window_terms(collection bigint, ids text[], config regconfig, setting jsonb)
RETURNS TABLE (item_id text, lexemes integer[], frequencies smallint[], spellings text[], length integer)
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan SET enable_nestloop = off SET enable_seqscan = on AS $$
BEGIN
    RETURN QUERY
    WITH parts AS MATERIALIZED (
        SELECT part.item_id COLLATE "C" AS item_id, part.part_id COLLATE "C" AS part_id, part.is_own
        FROM window_parts(collection, ids, (setting ->> 'before')::integer, (setting ->> 'after')::integer) AS part
    ),
    texts AS MATERIALIZED (
        -- Grouping by numbers is faster than by keys.
        SELECT row_number() OVER () AS number, item.item_id, item.title, item.body FROM items AS item
        WHERE item.collection_id = collection AND item.status <> 'archived'
            AND item.item_id = ANY (ARRAY(SELECT DISTINCT part.part_id FROM parts AS part))
    ),
    words AS MATERIALIZED (
        SELECT one.number, false AS is_title, found.lexeme, found.frequency, found.term
        FROM texts AS one CROSS JOIN LATERAL analyze_text(collection, config, one.body, true) AS found
        UNION ALL
        -- Titles, such as a speaker's name, repeat often.
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
        -- The spelling of a neighbour's words is stored with the neighbour.
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
            ORDER BY known.frequency DESC, known.lexeme LIMIT 16000
        ) AS term
    ) AS cut ON true;
END
$$;

-- Updates the lexical index of these items: an active item is indexed by its terms (words_of); archived and removed
-- items are taken out. The changes of the statistics are inserted as differences, computed from the replaced rows, so
-- the caller must hold the items or the collection's totals. are_gone: the items and their rows are removed next.
-- are_new: none of the items existed before.
-- All weights of a collection use one average length, which the first item sets and begin_weighing changes.
CREATE OR REPLACE FUNCTION reindex_terms(
    collection bigint, ids text[], are_gone boolean DEFAULT false, are_new boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    average real;
    is_first boolean;
BEGIN
    IF NOT are_new THEN
        INSERT INTO statistics_changes (collection_id, items, documents, total_length, lexemes, differences, terms)
        SELECT collection, 1, -1, -terms.length, terms.lexemes, array_fill(-1, ARRAY[cardinality(terms.lexemes)]), '{}'
        FROM item_terms AS terms WHERE terms.collection_id = collection AND terms.item_id = ANY (ids)
        ON CONFLICT DO NOTHING;
    END IF;
    IF are_gone THEN
        RETURN;
    END IF;

    SELECT total.weighed_length INTO average FROM collection_statistics AS total WHERE total.collection_id = collection;
    is_first := average IS NULL;
    IF is_first THEN
        -- Writers of the first items take turns, because the first one sets the average length for all.
        PERFORM hold_totals(collection);
        SELECT total.weighed_length INTO average
        FROM collection_statistics AS total WHERE total.collection_id = collection;
    END IF;

    WITH fresh AS MATERIALIZED (
        SELECT own.item_id, own.lexemes, own.frequencies, own.spellings, own.length, own.text_hash
        FROM words_of(collection, ids) AS own
    ),
    indexed AS (
        INSERT INTO item_terms (collection_id, item_id, lexemes, frequencies, length, weights, text_hash)
        SELECT
            collection, fresh.item_id, fresh.lexemes, fresh.frequencies, fresh.length,
            bm25_weights(fresh.lexemes, fresh.frequencies, fresh.length, coalesce(
                average, (SELECT (sum(every.length)::real / count(*))::real FROM fresh AS every)
            )),
            fresh.text_hash
        FROM fresh
        ON CONFLICT (collection_id, item_id) DO UPDATE SET
            lexemes = excluded.lexemes,
            frequencies = excluded.frequencies,
            length = excluded.length,
            weights = excluded.weights,
            text_hash = excluded.text_hash
    )
    INSERT INTO statistics_changes (collection_id, items, documents, total_length, lexemes, differences, terms)
    SELECT collection, totals.documents, totals.documents, totals.length, words.lexemes, words.documents, words.spellings
    FROM (SELECT count(*) AS documents, sum(fresh.length) AS length FROM fresh) AS totals
    CROSS JOIN (
        SELECT
            coalesce(array_agg(word.lexeme), '{}') AS lexemes, coalesce(array_agg(word.documents), '{}') AS documents,
            coalesce(array_agg(word.spelling), '{}') AS spellings
        FROM (
            SELECT one.lexeme, count(*)::integer AS documents, min(one.spelling) AS spelling
            FROM fresh CROSS JOIN LATERAL unnest(fresh.lexemes, fresh.spellings) AS one (lexeme, spelling)
            GROUP BY one.lexeme
        ) AS word
    ) AS words
    WHERE totals.documents > 0
    ON CONFLICT DO NOTHING;

    IF NOT are_new THEN
        DELETE FROM item_terms AS terms
        WHERE terms.collection_id = collection AND terms.item_id = ANY (ids) AND NOT EXISTS (
            SELECT FROM items AS item
            WHERE item.collection_id = collection AND item.item_id = terms.item_id AND item.status <> 'archived'
        );
    END IF;
    IF is_first THEN
        UPDATE collection_statistics AS total SET weighed_length = (
            SELECT (sum(terms.length)::real / nullif(count(*), 0))::real FROM item_terms AS terms
            WHERE terms.collection_id = collection AND terms.item_id = ANY (ids)
        )
        WHERE total.collection_id = collection AND total.weighed_length IS NULL;
    END IF;
END
$$;

-- Updates the indexes of these items' texts: their lexical index, the index of the neighbours concerned, and the words
-- of pg_textsearch. Call it in the transaction that wrote the items, whose row locks keep two writers of an item apart,
-- and under the writers' lock; call settle_statistics after it. If neighbours are indexed together, items to be removed
-- must be archived first. are_new: none of the items existed before.
CREATE OR REPLACE FUNCTION index_terms(
    collection bigint, ids text[], are_gone boolean DEFAULT false, are_new boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    windowed boolean;
    in_textsearch boolean;
BEGIN
    -- Reads the catalog itself, because to_regclass may have cached the answer from before the wait for the lock.
    in_textsearch := EXISTS (
        SELECT FROM pg_class AS c
        WHERE c.relname = 'textsearch_' || collection AND c.relnamespace = to_regnamespace(quote_ident(current_schema()))
    );
    windowed := are_windowed(collection);
    -- Limits the pending list of the index of lexemes, which every search reads: a shorter list makes writes more
    -- expensive.
    PERFORM set_config('gin_pending_list_limit', CASE WHEN cardinality(ids) < 200 THEN '256kB' ELSE '2MB' END, true);
    IF in_textsearch THEN
        PERFORM textsearch_index(collection, ids, are_gone);
    END IF;
    IF windowed THEN
        -- A window covers several items, so their writers take turns, and the second one sees the first one's changes.
        PERFORM hold_totals(collection);
        IF are_gone THEN
            UPDATE items AS item SET status = 'archived' WHERE item.collection_id = collection AND item.item_id = ANY (ids);
        END IF;
        ids := place_items(collection, ids);
        are_gone := false;
        are_new := false;
    ELSIF NOT are_gone AND NOT are_new THEN
        -- Terms are not recomputed for an item with an unchanged text.
        ids := ARRAY(
            SELECT one.item_id FROM unnest(ids) AS one (item_id)
            LEFT JOIN LATERAL (
                SELECT true AS is_same
                FROM items AS item
                JOIN item_terms AS terms ON terms.collection_id = collection AND terms.item_id = item.item_id
                WHERE item.collection_id = collection AND item.item_id = one.item_id AND item.status <> 'archived'
                    AND item.text_hash = terms.text_hash
                LIMIT 1
            ) AS known ON true
            WHERE known.is_same IS NULL
        );
        IF ids = '{}' THEN
            RETURN;
        END IF;
    END IF;
    PERFORM reindex_terms(collection, ids, are_gone, are_new);
END
$$;

-- Adds the differences of writers to a collection's statistics; returns the number of rows. Holds the totals.
CREATE OR REPLACE FUNCTION fold_statistics(collection bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    folded bigint;
BEGIN
    PERFORM FROM collection_statistics AS total WHERE total.collection_id = collection FOR UPDATE;
    WITH change AS (
        DELETE FROM statistics_changes AS waiting WHERE waiting.collection_id = collection RETURNING *
    ),
    counted AS (
        INSERT INTO term_statistics AS known (collection_id, lexeme, document_frequency, term)
        SELECT collection, one.lexeme, sum(one.difference), min(one.term)
        FROM change CROSS JOIN LATERAL unnest(change.lexemes, change.differences, change.terms)
            AS one (lexeme, difference, term)
        GROUP BY one.lexeme
        HAVING sum(one.difference) <> 0
        ORDER BY one.lexeme
        ON CONFLICT (collection_id, lexeme) DO UPDATE SET
            document_frequency = known.document_frequency + excluded.document_frequency,
            term = coalesce(known.term, excluded.term)
    )
    UPDATE collection_statistics AS total
    SET documents = total.documents + together.documents, total_length = total.total_length + together.length
    FROM (
        SELECT count(*) AS rows, sum(change.documents) AS documents, sum(change.total_length) AS length FROM change
    ) AS together
    WHERE total.collection_id = collection AND together.rows > 0
    RETURNING together.rows INTO folded;
    RETURN coalesce(folded, 0);
END
$$;

-- The relative difference between the average length of a collection's items and the one that their weights use.
CREATE OR REPLACE FUNCTION length_drift(documents bigint, total_length bigint, weighed_length real) RETURNS real
LANGUAGE sql IMMUTABLE
RETURN coalesce(
    abs(total_length::real / nullif(documents, 0) / nullif(weighed_length, 0) - 1),
    CASE WHEN documents > 0 AND total_length > 0 THEN 'Infinity'::real ELSE 0::real END
);

-- Ends a write of this number of items; returns the drift (length_drift). Some calls also fold the differences of
-- writers (fold_statistics), unless another transaction does: in a collection of fewer than 1,000 items, and after a
-- write of 200 or more, when a tenth of the items has been written; otherwise after 128 writes on average, at random,
-- which needs no query. So statistics lag by about that much. goes_on: the call is a part of a larger write, which
-- folds whenever it has doubled the collection, and at its end.
CREATE OR REPLACE FUNCTION settle_statistics(collection bigint, written integer, goes_on boolean DEFAULT false, OUT drift real)
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    is_due boolean;
BEGIN
    SELECT
        CASE WHEN total.documents >= 1000 AND written < 200 AND NOT goes_on
            THEN random() < greatest(1.0 / 128, written * 10.0 / total.documents)
            ELSE total.documents < CASE WHEN goes_on THEN 1 ELSE 10 END * (
                SELECT coalesce(sum(change.items), 0) FROM statistics_changes AS change
                WHERE change.collection_id = collection
            )
        END,
        length_drift(total.documents, total.total_length, total.weighed_length)
    INTO is_due, drift
    FROM collection_statistics AS total WHERE total.collection_id = collection;
    IF is_due THEN
        PERFORM FROM collection_statistics AS total WHERE total.collection_id = collection FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            PERFORM fold_statistics(collection);
            SELECT length_drift(total.documents, total.total_length, total.weighed_length) INTO drift
            FROM collection_statistics AS total WHERE total.collection_id = collection;
        END IF;
    END IF;
    drift := coalesce(drift, 0);
END
$$;

-- Starts weighing all items again with the present average length, if the drift exceeds this share; refresh_weights
-- does the work. It waits for writers, and later writers use the new length.
CREATE OR REPLACE FUNCTION begin_weighing(collection bigint, share double precision) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM collection_statistics AS total
    WHERE total.collection_id = collection AND total.documents > 0
        AND length_drift(total.documents, total.total_length, total.weighed_length) > share;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(writers_lock(collection));
    PERFORM fold_statistics(collection);
    UPDATE collection_statistics AS total
    SET weighed_length = total.total_length::real / total.documents, weighing_after = ''
    WHERE total.collection_id = collection AND total.documents > 0
        AND length_drift(total.documents, total.total_length, total.weighed_length) > share;
END
$$;

-- Weighs the next items of a collection again with its average length; returns their number, 0 or NULL when all are
-- done, and -1 if a writer holds the next item. The position is stored in weighing_after, so that an interrupted walk
-- resumes, and all callers share it. It stops at a held item instead of waiting, because it holds the collection's
-- totals, for which the writer may wait.
CREATE OR REPLACE FUNCTION refresh_weights(collection bigint, step integer) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    arrived text;
    average real;
    page text[];
    free text[];
    busy text;
BEGIN
    SELECT total.weighing_after, total.weighed_length INTO arrived, average
    FROM collection_statistics AS total
    WHERE total.collection_id = collection
    FOR UPDATE;
    IF arrived IS NULL THEN
        RETURN NULL;
    END IF;

    page := ARRAY(
        SELECT terms.item_id FROM item_terms AS terms
        WHERE terms.collection_id = collection AND terms.item_id > arrived
        ORDER BY terms.item_id LIMIT step
    );
    free := ARRAY(
        SELECT terms.item_id FROM item_terms AS terms
        WHERE terms.collection_id = collection AND terms.item_id = ANY (page)
        FOR UPDATE SKIP LOCKED
    );
    SELECT min(terms.item_id) INTO busy FROM item_terms AS terms
    WHERE terms.collection_id = collection AND terms.item_id = ANY (page) AND terms.item_id <> ALL (free);
    page := ARRAY(
        SELECT one FROM unnest(page) WITH ORDINALITY AS next (one, place)
        WHERE busy IS NULL OR one COLLATE "C" < busy
        ORDER BY place
    );
    IF page = '{}' AND busy IS NOT NULL THEN
        RETURN -1;
    END IF;
    UPDATE item_terms AS terms
    SET weights = bm25_weights(terms.lexemes, terms.frequencies, terms.length, average)
    WHERE terms.collection_id = collection AND terms.item_id = ANY (page);

    arrived := page[cardinality(page)];
    UPDATE collection_statistics AS total SET weighing_after = arrived WHERE total.collection_id = collection;
    RETURN cardinality(page);
END
$$;

-- Stores the spelling of terms without one, from the items that contain them; returns their number. Prefixes are found
-- by spelling. Writing an item also stores its terms' spelling, so this is for terms that a recount adds.
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

GRANT EXECUTE ON FUNCTION bm25_weights, words_of, window_terms, reindex_terms, index_terms, fold_statistics,
    length_drift, settle_statistics TO @app@, @definer@;
GRANT EXECUTE ON FUNCTION begin_weighing, refresh_weights, name_terms TO @app@;
