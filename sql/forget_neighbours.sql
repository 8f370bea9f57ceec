-- Indexes every item by itself again, as each tenant in turn, because the policies hold here too.
DO $forget$
DECLARE
    former text := current_setting('role');
    tenants bigint[];
    tenant bigint;
    owned record;
BEGIN
    PERFORM set_config('role', @definer_literal@, true);
    tenants := ARRAY(SELECT tenant_id FROM tenants);
    PERFORM set_config('role', @app_literal@, true);
    FOREACH tenant IN ARRAY tenants LOOP
        PERFORM set_config('retrieval.tenant', tenant::text, true);
        FOR owned IN SELECT c.collection_id FROM collections AS c WHERE c.neighbours IS NOT NULL ORDER BY 1 LOOP
            PERFORM set_neighbours(owned.collection_id, NULL);
        END LOOP;
        -- A walk that was under way counts too.
        FOR owned IN
            SELECT t.collection_id FROM collection_statistics AS t WHERE t.windowing_after IS NOT NULL ORDER BY 1
        LOOP
            WHILE coalesce(reindex_windows(owned.collection_id, 1000), 0) > 0 LOOP
                NULL;
            END LOOP;
        END LOOP;
    END LOOP;
    PERFORM set_config('retrieval.tenant', '', true);
    PERFORM set_config('role', former, true);
END
$forget$;
