-- Writes over HTTP that were answered, or are being answered, under a key of the client's choice.
CREATE TABLE idempotency_keys (
    tenant_id bigint NOT NULL,
    key_id text COLLATE "C" NOT NULL,  -- the API key that the client used; empty where it needed none
    idempotency_key text COLLATE "C" NOT NULL,
    attempt uuid NOT NULL,  -- tells who began it
    request_hash bytea NOT NULL,  -- of method and path
    body_hash bytea,
    held_until timestamptz NOT NULL,  -- whoever began it has given up by then, or is dead
    expires_at timestamptz NOT NULL,
    status smallint,  -- NULL: not answered yet
    headers jsonb,
    body bytea,  -- NULL: too long to be kept
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, key_id, idempotency_key),
    CONSTRAINT idempotency_keys_tenant_id_fkey
        FOREIGN KEY (tenant_id) REFERENCES tenants (tenant_id) ON DELETE CASCADE
);
CREATE INDEX idempotency_keys_expires_at_idx ON idempotency_keys (expires_at);
ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY idempotency_keys_app ON idempotency_keys TO @app@
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY idempotency_keys_definer ON idempotency_keys TO @definer@
    USING (expires_at < now()) WITH CHECK (false);
REVOKE ALL ON idempotency_keys FROM PUBLIC;
GRANT SELECT, UPDATE, DELETE ON idempotency_keys TO @definer@;
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_keys TO @app@;

-- Remove up to so many that have expired, whichever tenant's they are; gives how many. Jobs are of collections, and a
-- tenant that writes need not have one any more.
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
ALTER FUNCTION remove_expired_writes(integer) OWNER TO @definer@;
REVOKE ALL ON FUNCTION remove_expired_writes(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION remove_expired_writes(integer) TO @app@;
