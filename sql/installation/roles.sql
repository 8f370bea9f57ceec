-- The three roles of an installation, which cannot log in; their names begin with the schema's name. A comment marks
-- them as made here, so that an existing role with such a name is never taken over.
--   @app@ is the role that the platform acts as in each transaction; row-level security applies to it.
--   @definer@ owns the functions and tables that bypass the policies; others can only call its functions.
--   @analyst@ is granted to logins that read figures: they see one tenant, and cannot write.
DO $roles$
DECLARE
    wanted name;
    mark CONSTANT text := 'made by retrieval db upgrade';
    -- pgvector's types and operators may be in a schema that not every role may use.
    place name := (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
                   WHERE e.extname = 'vector');
BEGIN
    -- Roles belong to the whole server: an installation in another database may be making the same roles.
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
        IF NOT pg_has_role(wanted, 'MEMBER WITH ADMIN OPTION') THEN
            RAISE insufficient_privilege USING MESSAGE = format(
                'another login made role %I, which the databases of this server share: set RETRIEVAL_SCHEMA to another name, '
                'or have a superuser run: GRANT %I, %I, %I TO %I WITH ADMIN OPTION',
                wanted, @app_literal@, @definer_literal@, @analyst_literal@, current_user);
        END IF;
        -- Only a login with the role's rights can revoke grants that the role received.
        IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
            EXECUTE format('GRANT %I TO CURRENT_USER WITH INHERIT TRUE, SET TRUE', wanted);
        END IF;
        IF NOT has_schema_privilege(wanted, place, 'USAGE') THEN
            -- Otherwise the grant may be a mere warning.
            IF NOT has_schema_privilege(place, 'USAGE WITH GRANT OPTION') THEN
                RAISE insufficient_privilege USING MESSAGE = format(
                    'role %I may not use schema %I, where pgvector is, and %I may not let it: have a superuser run: '
                    'GRANT USAGE ON SCHEMA %I TO %I WITH GRANT OPTION',
                    wanted, place, current_user, place, current_user);
            END IF;
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', place, wanted);
        END IF;
    END LOOP;
END
$roles$;

GRANT USAGE ON SCHEMA @schema@ TO @app@, @definer@, @analyst@;
GRANT CREATE ON SCHEMA @schema@ TO @definer@;
