-- One key with its tenant, before anybody knows whose it is: for a transaction that acts for no tenant yet. A tenant's
-- own transactions see its own keys in the table, and no other's anywhere.
CREATE OR REPLACE FUNCTION find_api_key(wanted text) RETURNS TABLE (
    tenant_id bigint, secret_hash bytea, key_id text, tenant text, name text, scopes text[],
    requests_per_minute integer, feedback_cap integer, created_at timestamptz, expires_at timestamptz,
    revoked_at timestamptz, last_used_at timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT k.tenant_id, k.secret_hash, k.key_id, t.name, k.name, k.scopes, k.requests_per_minute, k.feedback_cap,
        k.created_at, k.expires_at, k.revoked_at, k.last_used_at
    FROM api_keys AS k JOIN tenants AS t ON t.tenant_id = k.tenant_id
    WHERE k.key_id = wanted AND current_tenant() IS NULL
$$;
ALTER FUNCTION find_api_key(text) OWNER TO @definer@;
REVOKE ALL ON FUNCTION find_api_key(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_api_key(text) TO @app@;
