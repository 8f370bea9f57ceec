-- The three roles of an installation. None can log in; all follow the schema's name. They carry a comment that marks them
-- as made here: a role of that name that somebody else made is never taken over.
--   @app@      what the platform acts as, set for each transaction; row-level security holds for it.
--   @definer@  owns the functions and tables that look across the policies; only its functions can be called.
--   @analyst@  what the logins of those who read figures are granted: they see one tenant, and write nothing.
DO $roles$
DECLARE
    wanted name;
    mark CONSTANT text := 'made by retrieval db upgrade';
    -- pgvector's types and operators may live in a schema that not everybody may use.
    place name := (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
                   WHERE e.extname = 'vector');
BEGIN
    -- Roles belong to the whole server: another database may be making the same ones.
    PERFORM pg_advisory_xact_lock(hashtextextended('retrieval roles', 0));
    FOREACH wanted IN ARRAY ARRAY[@app_literal@, @definer_literal@, @analyst_literal@]::name[] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            EXECUTE format('COMMENT ON ROLE %I IS %L', wanted, mark);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            PERFORM FROM pg_roles r
            WHERE r.rolname = wanted AND shobj_description(r.oid, 'pg_authid') = mark
                AND NOT (r.rolsuper OR r.rolbypassrls)
                -- The nodes of a cluster log in at each other as these roles.
                AND NOT (r.rolcanlogin AND NOT EXISTS (SELECT FROM pg_extension AS e WHERE e.extname = 'citus'));
            IF NOT FOUND THEN
                RAISE insufficient_privilege USING MESSAGE = format(
                    'role %I exists and was not made for this installation, or may log in or bypass row-level security: '
                    'rename it, or set RETRIEVAL_SCHEMA to another name', wanted);
            END IF;
        END;
        -- Only a login with the role's rights can revoke grants that the role received.
        IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
            EXECUTE format('GRANT %I TO CURRENT_USER WITH INHERIT TRUE, SET TRUE', wanted);
        END IF;
        IF NOT has_schema_privilege(wanted, place, 'USAGE') THEN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', place, wanted);
        END IF;
    END LOOP;
END
$roles$;

GRANT USAGE ON SCHEMA @schema@ TO @app@, @definer@, @analyst@;
GRANT CREATE ON SCHEMA @schema@ TO @definer@;
