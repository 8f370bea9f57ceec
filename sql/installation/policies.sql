-- The policies. Row-level security is forced on every table, so that it also holds for the owner: the application role
-- sees its tenant's rows; the definer role sees all rows, but only inside its functions; an analyst reads one tenant's
-- rows. PUBLIC has no rights.
REVOKE ALL ON ALL TABLES IN SCHEMA @schema@ FROM PUBLIC;
GRANT SELECT ON alembic_version TO @app@;

ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants_app ON tenants TO @app@
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenants_definer ON tenants TO @definer@ USING (true) WITH CHECK (true);
GRANT SELECT ON tenants TO @app@;
GRANT SELECT, INSERT ON tenants TO @definer@;

ALTER TABLE collections ENABLE ROW LEVEL SECURITY;
ALTER TABLE collections FORCE ROW LEVEL SECURITY;
CREATE POLICY collections_app ON collections TO @app@
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY collections_definer ON collections TO @definer@ USING (true) WITH CHECK (true);
CREATE POLICY collections_analyst ON collections FOR SELECT TO @analyst@ USING (tenant_id = analyst_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON collections TO @app@;
GRANT SELECT, REFERENCES ON collections TO @definer@;
GRANT SELECT ON collections TO @analyst@;

ALTER TABLE embedding_spaces ENABLE ROW LEVEL SECURITY;
ALTER TABLE embedding_spaces FORCE ROW LEVEL SECURITY;
CREATE POLICY embedding_spaces_app ON embedding_spaces FOR SELECT TO @app@ USING (true);
CREATE POLICY embedding_spaces_definer ON embedding_spaces TO @definer@ USING (true) WITH CHECK (true);
GRANT SELECT ON embedding_spaces TO @app@;
GRANT SELECT, INSERT ON embedding_spaces TO @definer@;

-- The tables of a tenant that do not belong to a collection.
ALTER TABLE embedding_cache ENABLE ROW LEVEL SECURITY;
ALTER TABLE embedding_cache FORCE ROW LEVEL SECURITY;
CREATE POLICY embedding_cache_app ON embedding_cache TO @app@
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON embedding_cache TO @app@;

ALTER TABLE query_rewrites ENABLE ROW LEVEL SECURITY;
ALTER TABLE query_rewrites FORCE ROW LEVEL SECURITY;
CREATE POLICY query_rewrites_app ON query_rewrites TO @app@
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON query_rewrites TO @app@;

-- The tables of keys and logins.
ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY api_keys_app ON api_keys TO @app@
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY api_keys_definer ON api_keys FOR SELECT TO @definer@ USING (true);
GRANT SELECT, INSERT ON api_keys TO @app@;
GRANT UPDATE (revoked_at, last_used_at) ON api_keys TO @app@;
GRANT SELECT ON api_keys TO @definer@;

ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY idempotency_keys_app ON idempotency_keys TO @app@
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY idempotency_keys_definer ON idempotency_keys TO @definer@
    USING (expires_at < now()) WITH CHECK (false);
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_keys TO @app@;
GRANT SELECT, UPDATE, DELETE ON idempotency_keys TO @definer@;

ALTER TABLE analyst_logins ENABLE ROW LEVEL SECURITY;
ALTER TABLE analyst_logins FORCE ROW LEVEL SECURITY;
CREATE POLICY analyst_logins_app ON analyst_logins FOR SELECT TO @app@ USING (tenant_id = current_tenant());
CREATE POLICY analyst_logins_definer ON analyst_logins TO @definer@ USING (true) WITH CHECK (true);
GRANT SELECT ON analyst_logins TO @app@;
GRANT SELECT, INSERT, UPDATE, DELETE ON analyst_logins TO @definer@;

-- Rows that belong to a collection are visible with it; analysts may only read, and not all tables.
DO $policies$
DECLARE
    owned text;
BEGIN
    FOREACH owned IN ARRAY ARRAY[
        'ann_indexes', 'arm_baselines', 'arms', 'attribute_numbers', 'attribute_texts', 'attribute_times',
        'cluster_centroids', 'collection_attributes', 'collection_statistics', 'feedback',
        'item_clusters', 'item_places', 'item_tags', 'item_terms', 'items', 'job_runs', 'learned_models',
        'learning_states', 'memories', 'memory_links', 'own_vectors', 'profiles', 'quarantines', 'query_samples',
        'recall_measurements', 'recording_losses', 'reembeddings', 'retrievals', 'rewarded_queries',
        'statistics_changes', 'term_statistics'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', owned);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', owned);
        EXECUTE format('CREATE POLICY %I ON %I TO %I
                        USING (collection_id IN (SELECT c.collection_id FROM collections c))
                        WITH CHECK (collection_id IN (SELECT c.collection_id FROM collections c))',
                       owned || '_app', owned, @app_literal@);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO %I', owned, @app_literal@);
    END LOOP;
    -- The tables that the definer role's functions read.
    FOREACH owned IN ARRAY ARRAY[
        'ann_indexes', 'arm_baselines', 'arms', 'cluster_centroids', 'feedback', 'item_clusters', 'job_runs',
        'learned_models', 'learning_states', 'memories', 'memory_links', 'quarantines', 'query_samples',
        'recall_measurements', 'recording_losses', 'reembeddings', 'retrievals', 'rewarded_queries'
    ] LOOP
        EXECUTE format('CREATE POLICY %I ON %I FOR SELECT TO %I USING (true)',
                       owned || '_definer', owned, @definer_literal@);
        EXECUTE format('GRANT SELECT ON %I TO %I', owned, @definer_literal@);
    END LOOP;
    -- The tables that its functions write: items and everything derived from them.
    FOREACH owned IN ARRAY ARRAY[
        'attribute_numbers', 'attribute_texts', 'attribute_times', 'collection_attributes', 'collection_statistics',
        'item_places', 'item_tags', 'item_terms', 'items', 'own_vectors', 'statistics_changes', 'term_statistics'
    ] LOOP
        EXECUTE format('CREATE POLICY %I ON %I TO %I USING (true) WITH CHECK (true)',
                       owned || '_definer', owned, @definer_literal@);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO %I', owned, @definer_literal@);
    END LOOP;
    FOREACH owned IN ARRAY ARRAY[
        'arms', 'cluster_centroids', 'feedback', 'item_clusters', 'items', 'job_runs', 'learned_models', 'learning_states',
        'profiles', 'quarantines', 'recall_measurements', 'recording_losses', 'retrievals'
    ] LOOP
        EXECUTE format('CREATE POLICY %I ON %I FOR SELECT TO %I
                        USING (collection_id IN (SELECT c.collection_id FROM collections c))',
                       owned || '_analyst', owned, @analyst_literal@);
        EXECUTE format('GRANT SELECT ON %I TO %I', owned, @analyst_literal@);
    END LOOP;
END
$policies$;

-- The tables of embedding spaces refer to items, and the months of recorded searches to collections.
GRANT REFERENCES ON items TO @definer@;
-- A view over retrievals with its reader's policies.
GRANT SELECT ON impressions TO @app@, @analyst@;
