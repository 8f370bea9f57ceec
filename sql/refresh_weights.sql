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
