-- The roles of an installation on a node of a cluster. The nodes log in at each other as the role that acts: so theirs may
-- log in. Who is let in from where is told by each node's pg_hba.conf (docs/how-to/cluster.md).
DO $roles$
DECLARE
    wanted name;
BEGIN
    FOREACH wanted IN ARRAY ARRAY[@app_literal@, @definer_literal@, @analyst_literal@]::name[] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I', wanted);
        END IF;
        EXECUTE format('ALTER ROLE %I LOGIN', wanted);
    END LOOP;
    EXECUTE format('CREATE SCHEMA IF NOT EXISTS %I', @schema_literal@);
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I, %I, %I', @schema_literal@, @app_literal@, @definer_literal@, @analyst_literal@);
    EXECUTE format('GRANT CREATE ON SCHEMA %I TO %I', @schema_literal@, @definer_literal@);
    -- Policies and functions read the small tables beside the rows of a collection, each node its own copy.
    EXECUTE format('ALTER DATABASE %I SET citus.allow_nested_distributed_execution = on', current_database());
    -- A transaction whose foreign keys lead to a small table may use one connection to a node.
    EXECUTE format('ALTER DATABASE %I SET citus.multi_shard_modify_mode = sequential', current_database());
    EXECUTE format('ALTER DATABASE %I SET citus.max_adaptive_executor_pool_size = 1', current_database());
    -- A plan for all values leads to no node, and of some statements there is none.
    EXECUTE format('ALTER DATABASE %I SET plan_cache_mode = force_custom_plan', current_database());
END
$roles$;
