-- Removes what the revision of pg_textsearch made, and the tables and indexes made since.
DROP TRIGGER items_insert_textsearch ON items;
DROP TRIGGER items_update_textsearch ON items;
DROP TRIGGER items_delete_textsearch ON items;
DROP FUNCTION keep_textsearch(), textsearch_index(bigint, text[]), textsearch_search(bigint, text, integer),
    textsearch_candidates(bigint, text, integer), has_textsearch(bigint);
DO $remove$
DECLARE
    former record;
BEGIN
    FOR former IN
        SELECT c.relname FROM pg_class c
        WHERE c.relnamespace = to_regnamespace(quote_ident(@schema_literal@))
            AND c.relkind = 'r' AND c.relname ~ '^textsearch_[0-9]+$'
    LOOP
        EXECUTE format('DROP TABLE %I', former.relname);
    END LOOP;
END
$remove$;
