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

-- One key with its tenant, before anybody knows whose it is: for a transaction that acts for no tenant yet. A tenant's
-- own transactions see its own keys in the table, and no other's anywhere.
CREATE OR REPLACE FUNCTION find_api_key(wanted text) RETURNS TABLE (
    tenant_id bigint, secret_hash bytea, key_id text, tenant text, name text, scopes text[],
    requests_per_minute integer, created_at timestamptz, expires_at timestamptz, revoked_at timestamptz,
    last_used_at timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT k.tenant_id, k.secret_hash, k.key_id, t.name, k.name, k.scopes, k.requests_per_minute, k.created_at,
        k.expires_at, k.revoked_at, k.last_used_at
    FROM api_keys AS k JOIN tenants AS t ON t.tenant_id = k.tenant_id
    WHERE k.key_id = wanted AND current_tenant() IS NULL
$$;
ALTER FUNCTION find_api_key(text) OWNER TO @definer@;
REVOKE ALL ON FUNCTION find_api_key(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_api_key(text) TO @app@;
