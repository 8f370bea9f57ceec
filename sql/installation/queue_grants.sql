-- Workers are logins that may act as the definer role, which also owns the tables of vectors and so may build their
-- indexes. The application role has no rights here.
GRANT USAGE ON SCHEMA @jobs@ TO @definer@;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA @jobs@ TO @definer@;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA @jobs@ TO @definer@;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @jobs@ FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA @jobs@ TO @definer@;

DO $jobs$
BEGIN
    PERFORM set_config('search_path', current_setting('retrieval.former_path'), true);
END
$jobs$;
