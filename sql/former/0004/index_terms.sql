-- Brings the lexical index and the term statistics of these items up to date, exactly, in one call:
-- an active item is indexed, an archived one is taken out. Call it in the transaction that wrote the items: their
-- row locks keep two writers of one item apart, and lexemes are counted in order, so that writers cannot deadlock.
-- All rows of a collection are weighed with one average length, set by the first and moved by refresh_weights.
CREATE OR REPLACE FUNCTION index_terms(collection bigint, ids text[]) RETURNS bigint
LANGUAGE sql SET search_path FROM CURRENT AS $$
    -- The collection's totals are held first by everyone, so that no two writers wait for each other crosswise.
    INSERT INTO collection_statistics (collection_id, documents, total_length) VALUES (collection, 0, 0)
    ON CONFLICT (collection_id) DO NOTHING;
    SELECT FROM collection_statistics AS total WHERE total.collection_id = collection FOR UPDATE;

    WITH fresh AS MATERIALIZED (
        SELECT item.item_id, own.lexemes, own.frequencies, own.spellings, own.length
        FROM collections AS owner
        JOIN items AS item ON item.collection_id = owner.collection_id
        CROSS JOIN LATERAL (
            SELECT
                coalesce(array_agg(term.lexeme ORDER BY term.lexeme), '{}') AS lexemes,
                coalesce(array_agg(least(term.frequency, 32767)::smallint ORDER BY term.lexeme), '{}') AS frequencies,
                coalesce(array_agg(term.term ORDER BY term.lexeme), '{}') AS spellings,
                coalesce(sum(term.frequency), 0)::integer AS length
            FROM (
                SELECT found.lexeme, found.frequency, found.term
                FROM analyze_text(
                    collection, owner.text_search_config::regconfig, item.title || E'\n' || item.body, true
                ) AS found
                ORDER BY found.frequency DESC, found.lexeme
                LIMIT 16000 -- the most that a sparsevec holds
            ) AS term
        ) AS own
        WHERE owner.collection_id = collection AND item.collection_id = collection
            AND item.item_id = ANY (ids) AND item.status <> 'archived'
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
