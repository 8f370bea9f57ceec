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
