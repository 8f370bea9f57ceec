-- The roles of an installation on a node of a cluster. They may log in, because the nodes connect to each other as the
-- acting role. Each node's pg_hba.conf decides who may connect from where (docs/how-to/cluster.md).
DO $roles$
DECLARE
    wanted name;
BEGIN
    -- Roles belong to the whole server: two databases that are distributed at once would change the same roles.
    LOCK TABLE pg_authid IN SHARE ROW EXCLUSIVE MODE;
    FOREACH wanted IN ARRAY ARRAY[@app_literal@, @definer_literal@, @analyst_literal@]::name[] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I', wanted);
        END IF;
        EXECUTE format('ALTER ROLE %I LOGIN', wanted);
    END LOOP;
    EXECUTE format('CREATE SCHEMA IF NOT EXISTS %I', @schema_literal@);
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I, %I, %I', @schema_literal@, @app_literal@, @definer_literal@, @analyst_literal@);
    EXECUTE format('GRANT CREATE ON SCHEMA %I TO %I', @schema_literal@, @definer_literal@);
    -- Lets policies and functions on a node read its copies of the small tables together with the rows of a collection.
    EXECUTE format('ALTER DATABASE %I SET citus.allow_nested_distributed_execution = on', current_database());
    -- Lets a transaction use one connection to a node, as foreign keys to a small table require.
    EXECUTE format('ALTER DATABASE %I SET citus.multi_shard_modify_mode = sequential', current_database());
    EXECUTE format('ALTER DATABASE %I SET citus.max_adaptive_executor_pool_size = 1', current_database());
    -- A generic plan does not tell Citus the node, and for some statements there is none.
    EXECUTE format('ALTER DATABASE %I SET plan_cache_mode = force_custom_plan', current_database());
END
$roles$;
