-- Weighs these items again with the collection's average length as it is weighed now (see index_terms).
CREATE OR REPLACE FUNCTION refresh_weights(collection bigint, ids text[]) RETURNS bigint
LANGUAGE sql SET search_path FROM CURRENT AS $$
    WITH weighed AS (
        UPDATE item_terms AS terms
        SET weights = bm25_weights(terms.lexemes, terms.frequencies, terms.length, total.weighed_length)
        FROM collection_statistics AS total
        WHERE total.collection_id = collection AND terms.collection_id = collection AND terms.item_id = ANY (ids)
        RETURNING 1
    )
    SELECT count(*) FROM weighed
$$;
