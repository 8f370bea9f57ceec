-- The two roles of an installation. Neither can log in; both follow the schema's name.
--   @app@      what the platform acts as, set for each transaction; row-level security holds for it.
--   @definer@  owns the functions and tables that look across the policies; only its functions can be called.
DO $roles$
DECLARE
    wanted name;
BEGIN
    FOREACH wanted IN ARRAY ARRAY[@app_literal@, @definer_literal@]::name[] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- another database of this server made it at the same moment
            END;
        END IF;
        IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
            EXECUTE format('GRANT %I TO CURRENT_USER WITH INHERIT TRUE, SET TRUE', wanted);
        END IF;
    END LOOP;
END
$roles$;

-- pgvector's types and operators may live in a schema that not everybody may use.
DO $vectors$
DECLARE
    wanted name;
    place name := (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
                   WHERE e.extname = 'vector');
BEGIN
    FOREACH wanted IN ARRAY ARRAY[@app_literal@, @definer_literal@]::name[] LOOP
        IF NOT has_schema_privilege(wanted, place, 'USAGE') THEN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', place, wanted);
        END IF;
    END LOOP;
END
$vectors$;

GRANT USAGE ON SCHEMA @schema@ TO @app@, @definer@;
GRANT CREATE ON SCHEMA @schema@ TO @definer@;
