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
ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY idempotency_keys_app ON idempotency_keys TO @app@
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
REVOKE ALL ON idempotency_keys FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_keys TO @app@;
