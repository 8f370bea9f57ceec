-- Functions that read across the policies to find the tenant of a login or a key.
-- The revision that makes a function takes it from PUBLIC; each file ends with the roles that may call its functions.

-- The tenant of this transaction; NULL if none is set, and then no row is visible.
CREATE OR REPLACE FUNCTION current_tenant() RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN nullif(current_setting('retrieval.tenant', true), '')::bigint;

-- Raises insufficient_privilege unless the collection is the current tenant's. Functions with their owner's rights call
-- it first, because no policy restricts them.
CREATE OR REPLACE FUNCTION check_tenant(collection bigint) RETURNS void
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM collections AS owner
    WHERE owner.collection_id = collection AND owner.tenant_id = current_tenant();
    IF NOT FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('collection %s is not the current tenant''s', collection);
    END IF;
END
$$;

-- The id of the tenant with that name, made if it is missing. Simultaneous calls make only one.
CREATE OR REPLACE FUNCTION ensure_tenant(wanted text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    found_id bigint;
BEGIN
    SELECT tenant_id INTO found_id FROM tenants WHERE name = wanted;
    IF found_id IS NULL THEN
        INSERT INTO tenants (name) VALUES (wanted) ON CONFLICT (name) DO NOTHING;
        SELECT tenant_id INTO found_id FROM tenants WHERE name = wanted;
    END IF;
    RETURN found_id;
END
$$;

-- The collections of all tenants, for the worker. Only a login that may act as the definer role can call it, not the
-- application role.
CREATE OR REPLACE FUNCTION every_collection() RETURNS TABLE (tenant_id bigint, collection_id bigint, name text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT c.tenant_id, c.collection_id, c.name FROM collections AS c ORDER BY c.tenant_id, c.name
$$;

-- The tenant of the login that opened this session, whatever its current role; NULL if the login is not an analyst's.
CREATE OR REPLACE FUNCTION analyst_tenant() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT known.tenant_id FROM analyst_logins AS known WHERE known.login = session_user::text
$$;

-- A key with its tenant, for a transaction that does not act for a tenant yet. Otherwise a tenant sees only its own
-- keys, in the table.
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

-- Removes at most this number of expired rows, of all tenants, and returns their number. Not only of the caller's
-- tenant, because jobs run for collections, and a tenant with expired rows may have none.
CREATE OR REPLACE FUNCTION remove_expired_writes(most integer) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH removed AS (
        DELETE FROM idempotency_keys WHERE ctid = ANY(ARRAY(
            SELECT o.ctid FROM idempotency_keys AS o WHERE o.expires_at < now() LIMIT most FOR UPDATE SKIP LOCKED
        ))
        RETURNING 1
    )
    SELECT count(*) FROM removed
$$;

ALTER FUNCTION ensure_tenant OWNER TO @definer@;
ALTER FUNCTION every_collection OWNER TO @definer@;
ALTER FUNCTION analyst_tenant OWNER TO @definer@;
ALTER FUNCTION find_api_key OWNER TO @definer@;
ALTER FUNCTION remove_expired_writes OWNER TO @definer@;
GRANT EXECUTE ON FUNCTION current_tenant TO @app@, @definer@;
GRANT EXECUTE ON FUNCTION check_tenant TO @definer@;
GRANT EXECUTE ON FUNCTION ensure_tenant, find_api_key, remove_expired_writes TO @app@;
GRANT EXECUTE ON FUNCTION analyst_tenant TO @analyst@;
