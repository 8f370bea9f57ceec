-- The role of those who read figures: logins that were granted it see one tenant, and write nothing. It cannot log in,
-- follows the schema's name and carries the same mark as the other two (see sql/roles.sql).
DO $role$
DECLARE
    wanted CONSTANT name := @analyst_literal@;
    mark CONSTANT text := 'made by retrieval db upgrade';
    place name := (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
                   WHERE e.extname = 'vector');
BEGIN
    -- Roles belong to the whole server: another database may be making the same one.
    PERFORM pg_advisory_xact_lock(hashtextextended('retrieval roles', 0));
    BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
        EXECUTE format('COMMENT ON ROLE %I IS %L', wanted, mark);
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
        PERFORM FROM pg_roles r
        WHERE r.rolname = wanted AND shobj_description(r.oid, 'pg_authid') = mark
            AND NOT (r.rolcanlogin OR r.rolsuper OR r.rolbypassrls);
        IF NOT FOUND THEN
            RAISE insufficient_privilege USING MESSAGE = format(
                'role %I exists and was not made for this installation, or may log in or bypass row-level security: '
                'rename it, or set RETRIEVAL_SCHEMA to another name', wanted);
        END IF;
    END;
    -- What the role was granted can only be taken back by who has its rights.
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('GRANT %I TO CURRENT_USER WITH INHERIT TRUE, SET TRUE', wanted);
    END IF;
    IF NOT has_schema_privilege(wanted, place, 'USAGE') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', place, wanted);
    END IF;
END
$role$;

GRANT USAGE ON SCHEMA @schema@ TO @analyst@;
