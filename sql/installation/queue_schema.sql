-- The separate schema of the job queue, because its names are procrastinate's. The rest of this transaction creates
-- its objects there; queue_grants.sql returns to the installation's schema.
DO $jobs$
BEGIN
    IF to_regnamespace(quote_ident(@jobs_literal@)) IS NULL THEN
        EXECUTE format('CREATE SCHEMA %I', @jobs_literal@);
    ELSIF EXISTS (SELECT FROM pg_class AS c WHERE c.relnamespace = to_regnamespace(quote_ident(@jobs_literal@))) THEN
        RAISE insufficient_privilege USING MESSAGE = format(
            'schema %I exists and is not empty, so it is not taken over: rename it, or set RETRIEVAL_SCHEMA to another '
            'name', @jobs_literal@);
    END IF;
    PERFORM set_config('retrieval.former_path', current_setting('search_path'), true);
    PERFORM set_config('search_path', quote_ident(@jobs_literal@) || ', pg_temp', true);
END
$jobs$;
