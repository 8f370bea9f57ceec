-- Keys that let programs in over HTTP. Of a key's secret only the hash is here; what a key may do never changes.
CREATE TABLE api_keys (
    key_id text COLLATE "C" NOT NULL,
    tenant_id bigint NOT NULL,
    name text NOT NULL,
    scopes text[] NOT NULL,
    secret_hash bytea NOT NULL,
    requests_per_minute integer,
    created_at timestamptz DEFAULT now() NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    CONSTRAINT api_keys_pkey PRIMARY KEY (key_id),
    CONSTRAINT api_keys_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (tenant_id) ON DELETE CASCADE,
    CONSTRAINT api_keys_scopes_check CHECK (
        scopes <@ ARRAY['read', 'write', 'feedback', 'admin'] AND cardinality(scopes) > 0
    ),
    CONSTRAINT api_keys_requests_per_minute_check CHECK (requests_per_minute > 0)
);
CREATE INDEX api_keys_tenant_id_idx ON api_keys (tenant_id);
ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY api_keys_app ON api_keys TO @app@
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY api_keys_definer ON api_keys FOR SELECT TO @definer@ USING (true);
REVOKE ALL ON api_keys FROM PUBLIC;
GRANT SELECT, INSERT ON api_keys TO @app@;
GRANT UPDATE (revoked_at, last_used_at) ON api_keys TO @app@;
GRANT SELECT ON api_keys TO @definer@;
