-- The policies. Row-level security is forced on every table, so that it also holds for the owner: the application role
-- sees its tenant's rows; the definer role sees all rows, but only inside its functions; an analyst reads one tenant's
-- rows. PUBLIC has no rights.
REVOKE ALL ON ALL TABLES IN SCHEMA @schema@ FROM PUBLIC;
GRANT SELECT ON alembic_version TO @app@;

ALTER TABLE embedding_spaces ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY embedding_spaces_app ON embedding_spaces FOR SELECT TO @app@ USING (true);
CREATE POLICY embedding_spaces_definer ON embedding_spaces TO @definer@ USING (true);
GRANT SELECT ON embedding_spaces TO @app@;
GRANT SELECT, INSERT ON embedding_spaces TO @definer@;

ALTER TABLE analyst_logins ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY analyst_logins_app ON analyst_logins FOR SELECT TO @app@ USING (tenant_id = current_tenant());
CREATE POLICY analyst_logins_definer ON analyst_logins TO @definer@ USING (true);
GRANT SELECT ON analyst_logins TO @app@;
GRANT SELECT, INSERT, UPDATE, DELETE ON analyst_logins TO @definer@;

DO $policies$
DECLARE
    owned text;
    of_collections CONSTANT text := 'collection_id IN (SELECT c.collection_id FROM collections c)';
BEGIN
    -- The other tables of a tenant that do not belong to a collection.
    FOREACH owned IN ARRAY ARRAY[
        'tenants', 'collections', 'embedding_cache', 'query_rewrites', 'api_keys', 'idempotency_keys', 'quarantines'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', owned);
        EXECUTE format('CREATE POLICY %I ON %I TO %I USING (tenant_id = current_tenant())',
                       owned || '_app', owned, @app_literal@);
    END LOOP;
    -- Rows that belong to a collection are visible with it; analysts may only read, and not all tables.
    FOREACH owned IN ARRAY ARRAY[
        'ann_indexes', 'arm_baselines', 'arms', 'attribute_values', 'cluster_centroids', 'collection_attributes',
        'collection_statistics', 'feedback', 'item_clusters', 'item_places', 'item_tags', 'item_terms', 'items', 'job_runs', 'learned_models',
        'learning_states', 'memories', 'memory_links', 'own_vectors', 'profiles', 'query_samples',
        'recall_measurements', 'recording_losses', 'reembeddings', 'retrievals', 'rewarded_queries',
        'statistics_changes', 'term_statistics'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', owned);
        EXECUTE format('CREATE POLICY %I ON %I TO %I USING (%s)', owned || '_app', owned, @app_literal@, of_collections);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO %I', owned, @app_literal@);
    END LOOP;
    -- The tables that the definer role's functions read.
    FOREACH owned IN ARRAY ARRAY[
        'ann_indexes', 'api_keys', 'arm_baselines', 'arms', 'cluster_centroids', 'feedback', 'item_clusters', 'job_runs',
        'learned_models', 'learning_states', 'quarantines', 'query_samples', 'recall_measurements', 'recording_losses',
        'reembeddings', 'retrievals', 'rewarded_queries'
    ] LOOP
        EXECUTE format('CREATE POLICY %I ON %I FOR SELECT TO %I USING (true)',
                       owned || '_definer', owned, @definer_literal@);
        EXECUTE format('GRANT SELECT ON %I TO %I', owned, @definer_literal@);
    END LOOP;
    -- The tables that its functions write: items and everything derived from them.
    FOREACH owned IN ARRAY ARRAY[
        'attribute_values', 'collection_attributes', 'collection_statistics', 'item_places', 'item_tags',
        'item_terms', 'items', 'memories', 'memory_links', 'own_vectors', 'statistics_changes', 'term_statistics'
    ] LOOP
        EXECUTE format('CREATE POLICY %I ON %I TO %I USING (true)', owned || '_definer', owned, @definer_literal@);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO %I', owned, @definer_literal@);
    END LOOP;
    FOREACH owned IN ARRAY ARRAY[
        'arms', 'cluster_centroids', 'feedback', 'item_clusters', 'items', 'job_runs', 'learned_models', 'learning_states',
        'profiles', 'recall_measurements', 'recording_losses', 'retrievals'
    ] LOOP
        EXECUTE format('CREATE POLICY %I ON %I FOR SELECT TO %I USING (%s)',
                       owned || '_analyst', owned, @analyst_literal@, of_collections);
        EXECUTE format('GRANT SELECT ON %I TO %I', owned, @analyst_literal@);
    END LOOP;
END
$policies$;

GRANT SELECT ON tenants TO @app@;
GRANT SELECT, INSERT ON api_keys TO @app@;
GRANT UPDATE (revoked_at, last_used_at) ON api_keys TO @app@;
GRANT SELECT, INSERT, UPDATE, DELETE ON collections, embedding_cache, query_rewrites, idempotency_keys, quarantines TO @app@;
CREATE POLICY tenants_definer ON tenants TO @definer@ USING (true);
GRANT SELECT, INSERT ON tenants TO @definer@;
CREATE POLICY collections_definer ON collections TO @definer@ USING (true);
GRANT SELECT, REFERENCES ON collections TO @definer@;
CREATE POLICY idempotency_keys_definer ON idempotency_keys TO @definer@ USING (expires_at < now()) WITH CHECK (false);
GRANT SELECT, UPDATE, DELETE ON idempotency_keys TO @definer@;
CREATE POLICY collections_analyst ON collections FOR SELECT TO @analyst@ USING (tenant_id = analyst_tenant());
CREATE POLICY quarantines_analyst ON quarantines FOR SELECT TO @analyst@ USING (tenant_id = analyst_tenant());
GRANT SELECT ON collections, quarantines TO @analyst@;
-- The tables of embedding spaces refer to items, and the months of recorded searches to collections.
GRANT REFERENCES ON items TO @definer@;
-- A view over retrievals with its reader's policies.
GRANT SELECT ON impressions TO @app@, @analyst@;
