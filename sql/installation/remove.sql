-- Removes objects that were made after the installation: the tables of embedding spaces and of pg_textsearch; the queue
-- of jobs; and the roles with everything that they own or were granted here, unless another database of the server uses
-- them.
DO $remove$
DECLARE
    former name;
BEGIN
    FOR former IN
        SELECT c.relname FROM pg_class c
        WHERE c.relnamespace = to_regnamespace(quote_ident(@schema_literal@))
            AND c.relkind = 'r' AND c.relname ~ '^(embeddings|textsearch)_[0-9]+$'
    LOOP
        EXECUTE format('DROP TABLE %I', former);
        -- The functions of an embedding space.
        EXECUTE format('DROP FUNCTION IF EXISTS %I, %I', 'write_' || former, 'nearest_in_' || former);
    END LOOP;
    EXECUTE format('DROP SCHEMA %I CASCADE', @jobs_literal@);
    FOREACH former IN ARRAY ARRAY[@app_literal@, @definer_literal@, @analyst_literal@]::name[] LOOP
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
$remove$;
