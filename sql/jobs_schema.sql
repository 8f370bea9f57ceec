-- A schema of its own for the queue of jobs, whose names are procrastinate's. What this transaction makes next is made
-- there; jobs_grants goes back.
DO $jobs$
BEGIN
    IF to_regnamespace(quote_ident(@jobs_literal@)) IS NULL THEN
        EXECUTE format('CREATE SCHEMA %I', @jobs_literal@);
    END IF;
    PERFORM set_config('retrieval.former_path', current_setting('search_path'), true);
    PERFORM set_config('search_path', quote_ident(@jobs_literal@) || ', pg_temp', true);
END
$jobs$;
