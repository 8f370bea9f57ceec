-- Keeps the table textsearch_<collection> of a collection that has one: each active item's lexemes, as the numbers that
-- analyze_text gives, once for each time they occur. So the extension pg_textsearch counts what the portable index
-- counts, in every script, and never reads a text of its own: a table for each collection, because its statistics are an
-- index's, and version 1.0 disregards the WHERE of a partial index when it builds one.
CREATE OR REPLACE FUNCTION textsearch_index(collection bigint, ids text[]) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    kept bigint;
BEGIN
    EXECUTE format(
        'DELETE FROM %I AS document WHERE document.item_id = ANY ($1) AND NOT EXISTS (
             SELECT FROM items AS item
             WHERE item.collection_id = %s AND item.item_id = document.item_id AND item.status <> ''archived''
         )', 'textsearch_' || collection, collection)
    USING ids;
    EXECUTE format(
        'INSERT INTO %I AS known (collection_id, item_id, words)
         SELECT
             item.collection_id, item.item_id,
             coalesce((
                 SELECT string_agg(repeat(term.lexeme || '' '', term.frequency), '''' ORDER BY term.lexeme)
                 FROM (
                     SELECT found.lexeme, found.frequency
                     FROM analyze_text(
                         item.collection_id, owner.text_search_config::regconfig, item.title || E''\n'' || item.body, true
                     ) AS found
                     ORDER BY found.frequency DESC, found.lexeme
                     LIMIT 16000
                 ) AS term
             ), '''')
         FROM collections AS owner
         JOIN items AS item ON item.collection_id = owner.collection_id
         WHERE owner.collection_id = %s AND item.collection_id = %2$s
             AND item.item_id = ANY ($1) AND item.status <> ''archived''
         ON CONFLICT (collection_id, item_id) DO UPDATE SET words = excluded.words
         WHERE known.words <> excluded.words', 'textsearch_' || collection, collection)
    USING ids;
    GET DIAGNOSTICS kept = ROW_COUNT;
    RETURN kept;
END
$$;
REVOKE ALL ON FUNCTION textsearch_index(bigint, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION textsearch_index(bigint, text[]) TO @app@;

-- What writes items calls it, in the same statement. The shared lock is held until the writer's end: who makes or
-- drops such a table takes it alone, and so meets no writer that has not seen it.
CREATE OR REPLACE FUNCTION keep_textsearch() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    written record;
BEGIN
    FOR written IN
        SELECT changed.collection_id, array_agg(changed.item_id ORDER BY changed.item_id) AS ids
        FROM changed GROUP BY changed.collection_id ORDER BY changed.collection_id
    LOOP
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('retrieval textsearch', written.collection_id));
        -- Asked of the catalog itself: to_regclass may remember from before the wait for the lock that there was none.
        IF EXISTS (
            SELECT FROM pg_class AS c
            WHERE c.relname = 'textsearch_' || written.collection_id
                AND c.relnamespace = to_regnamespace(quote_ident(current_schema()))
        ) THEN
            PERFORM textsearch_index(written.collection_id, written.ids);
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION keep_textsearch() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION keep_textsearch() TO @app@;

CREATE TRIGGER items_insert_textsearch AFTER INSERT ON items
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION keep_textsearch();
CREATE TRIGGER items_update_textsearch AFTER UPDATE ON items
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION keep_textsearch();
CREATE TRIGGER items_delete_textsearch AFTER DELETE ON items
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION keep_textsearch();
