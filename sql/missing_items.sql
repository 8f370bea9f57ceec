-- Which of these items are not stored, each with a random name of its own: an item may be forgotten while a search that
-- found it waits to be recorded. Shares the lock that forgetting holds alone, so that the answer stays true until the
-- transaction's end; and VOLATILE, so that its look-ups see what was committed before the lock was had.
-- Its plans are kept, and made when the table may be empty: so it leaves the planner no second choice.
CREATE OR REPLACE FUNCTION missing_items(collections bigint[], ids text[])
RETURNS TABLE (collection bigint, item text, pseudonym text)
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    held text;
BEGIN
    held := pg_advisory_xact_lock_shared(feedback_lock())::text;
    RETURN QUERY
    SELECT given.collection_id, given.item_id, 'forgotten-' || replace(gen_random_uuid()::text, '-', '')
    FROM unnest(collections, ids) AS given (collection_id, item_id)
    LEFT JOIN LATERAL (
        SELECT true AS is_kept FROM items AS one
        WHERE one.collection_id = given.collection_id AND one.item_id = given.item_id
        LIMIT 1
    ) AS kept ON true
    WHERE kept.is_kept IS NULL;
END
$$;

REVOKE ALL ON FUNCTION missing_items(bigint[], text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION missing_items(bigint[], text[]) TO @app@;
