-- Removes what the first revision made, and the embedding spaces made since, with everything in them.
DO $remove$
DECLARE
    former record;
BEGIN
    FOR former IN
        SELECT c.relname FROM pg_class c
        WHERE c.relnamespace = to_regnamespace(quote_ident(@schema_literal@))
            AND c.relkind = 'r' AND c.relname ~ '^embeddings_[0-9]+$'
    LOOP
        EXECUTE format('DROP TABLE %I', former.relname);
    END LOOP;
END
$remove$;

DROP TABLE embedding_cache, item_terms, term_statistics, collection_statistics, collection_attributes, items, profiles,
    collections, embedding_spaces, tenants CASCADE;
DROP FUNCTION ensure_tenant(text), lexical_search(bigint, text, integer, integer), lexical_query(bigint, text),
    query_terms(bigint, text), index_terms(bigint, text[]), refresh_weights(bigint, integer),
    bm25_weights(integer[], smallint[], integer, real), analyze_text(bigint, regconfig, text), lexeme_id(bigint, text),
    register_embedding_space(text, text, text, integer, text, text, text), current_tenant();

DO $roles$
DECLARE
    former name;
BEGIN
    FOREACH former IN ARRAY ARRAY[@app_literal@, @definer_literal@]::name[] LOOP
        CONTINUE WHEN NOT EXISTS (
            SELECT FROM pg_roles r
            WHERE r.rolname = former AND shobj_description(r.oid, 'pg_authid') = 'made by retrieval db upgrade'
        );
        EXECUTE format('DROP OWNED BY %I', former);
        BEGIN
            EXECUTE format('DROP ROLE %I', former);
        EXCEPTION WHEN dependent_objects_still_exist THEN
            NULL; -- another database of this server uses it
        END;
    END LOOP;
END
$roles$;
