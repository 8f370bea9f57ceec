-- Which tenant each analyst's login sees. The database decides it by who logged in: nothing that an analyst can set, and
-- no role that he can take on, changes it.
CREATE TABLE analyst_logins (
    login text COLLATE "C" NOT NULL,
    tenant_id bigint NOT NULL,
    added_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT analyst_logins_pkey PRIMARY KEY (login),
    CONSTRAINT analyst_logins_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (tenant_id) ON DELETE CASCADE
);
ALTER TABLE analyst_logins ENABLE ROW LEVEL SECURITY;
ALTER TABLE analyst_logins FORCE ROW LEVEL SECURITY;
CREATE POLICY analyst_logins_app ON analyst_logins FOR SELECT TO @app@ USING (tenant_id = current_tenant());
CREATE POLICY analyst_logins_definer ON analyst_logins TO @definer@ USING (true) WITH CHECK (true);
REVOKE ALL ON analyst_logins FROM PUBLIC;
GRANT SELECT ON analyst_logins TO @app@;
GRANT SELECT, INSERT, UPDATE, DELETE ON analyst_logins TO @definer@;

-- The tenant of the login that opened this session, whatever role it acts as now; NULL for one that is no analyst's.
CREATE OR REPLACE FUNCTION analyst_tenant() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT known.tenant_id FROM analyst_logins AS known WHERE known.login = session_user::text
$$;
ALTER FUNCTION analyst_tenant() OWNER TO @definer@;
REVOKE ALL ON FUNCTION analyst_tenant() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION analyst_tenant() TO @analyst@;

-- Everything that belongs to a collection is seen with the collection, and only seen.
DO $policies$
DECLARE
    owned text;
BEGIN
    FOREACH owned IN ARRAY ARRAY['profiles', 'items', 'retrievals', 'impressions', 'recording_losses', 'feedback', 'arms',
                                 'learning_states', 'quarantines', 'learned_models', 'cluster_centroids',
                                 'item_clusters', 'job_runs', 'recall_measurements'] LOOP
        EXECUTE format('CREATE POLICY %I ON %I FOR SELECT TO %I
                        USING (collection_id IN (SELECT c.collection_id FROM collections c))',
                       owned || '_analyst', owned, @analyst_literal@);
        EXECUTE format('GRANT SELECT ON %I TO %I', owned, @analyst_literal@);
    END LOOP;
END
$policies$;

-- Every search reads this table: it is held last, and so for a moment only.
CREATE POLICY collections_analyst ON collections FOR SELECT TO @analyst@ USING (tenant_id = analyst_tenant());
GRANT SELECT ON collections TO @analyst@;
