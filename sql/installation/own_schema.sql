-- Refuses the schema of another installation's queue of jobs: what is in it is removed with that installation.
DO $own$
BEGIN
    IF EXISTS (
        SELECT FROM pg_class AS c
        WHERE c.relnamespace = to_regnamespace(quote_ident(@schema_literal@)) AND c.relname = 'procrastinate_jobs'
    ) THEN
        RAISE insufficient_privilege USING MESSAGE = format(
            'schema %I holds the queue of jobs of another installation, so it is not taken over: set RETRIEVAL_SCHEMA '
            'to another name', @schema_literal@);
    END IF;
END
$own$;
