-- Row-level security on every table, forced, so that it holds for the owner too.
-- The application role sees its tenant's rows; the definer role sees all, inside its functions only.
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants_app ON tenants TO @app@
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenants_definer ON tenants TO @definer@ USING (true) WITH CHECK (true);

ALTER TABLE collections ENABLE ROW LEVEL SECURITY;
ALTER TABLE collections FORCE ROW LEVEL SECURITY;
CREATE POLICY collections_app ON collections TO @app@
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY collections_definer ON collections TO @definer@ USING (true) WITH CHECK (true);

ALTER TABLE embedding_cache ENABLE ROW LEVEL SECURITY;
ALTER TABLE embedding_cache FORCE ROW LEVEL SECURITY;
CREATE POLICY embedding_cache_app ON embedding_cache TO @app@
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());

ALTER TABLE embedding_spaces ENABLE ROW LEVEL SECURITY;
ALTER TABLE embedding_spaces FORCE ROW LEVEL SECURITY;
CREATE POLICY embedding_spaces_app ON embedding_spaces FOR SELECT TO @app@ USING (true);
CREATE POLICY embedding_spaces_definer ON embedding_spaces TO @definer@ USING (true) WITH CHECK (true);

-- Everything that belongs to a collection is seen with the collection.
DO $policies$
DECLARE
    owned text;
BEGIN
    FOREACH owned IN ARRAY ARRAY['profiles', 'items', 'item_terms', 'term_statistics', 'collection_statistics',
                                 'collection_attributes'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', owned);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', owned);
        EXECUTE format('CREATE POLICY %I ON %I TO %I
                        USING (collection_id IN (SELECT c.collection_id FROM collections c))
                        WITH CHECK (collection_id IN (SELECT c.collection_id FROM collections c))',
                       owned || '_app', owned, @app_literal@);
        EXECUTE format('CREATE POLICY %I ON %I FOR SELECT TO %I USING (true)',
                       owned || '_definer', owned, @definer_literal@);
    END LOOP;
END
$policies$;
