-- The tables of tenants, and of their logins and keys.

CREATE TABLE tenants (
    tenant_id bigint GENERATED ALWAYS AS IDENTITY,
    name text COLLATE "C" NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT tenants_pkey PRIMARY KEY (tenant_id),
    CONSTRAINT tenants_name_key UNIQUE (name)
);

-- Keys for programs over HTTP: only the hash of a key's secret is stored; the rights of a key never change.
CREATE TABLE api_keys (
    key_id text COLLATE "C" NOT NULL,
    tenant_id bigint NOT NULL REFERENCES tenants ON DELETE CASCADE,
    name text NOT NULL,
    scopes text[] NOT NULL,
    secret_hash bytea NOT NULL,
    requests_per_minute integer CHECK (requests_per_minute > 0),
    created_at timestamptz DEFAULT now() NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    feedback_cap integer DEFAULT 1000 NOT NULL CHECK (feedback_cap > 0),  -- the events a day that count for an item
    CONSTRAINT api_keys_pkey PRIMARY KEY (key_id),
    CONSTRAINT api_keys_scopes_check CHECK (
        scopes <@ ARRAY['read', 'write', 'feedback', 'admin'] AND cardinality(scopes) > 0
    )
);
CREATE INDEX api_keys_tenant_id_idx ON api_keys (tenant_id);

-- Writes over HTTP under an idempotency key, with their answers once they exist.
CREATE TABLE idempotency_keys (
    tenant_id bigint NOT NULL REFERENCES tenants ON DELETE CASCADE,
    key_id text COLLATE "C" NOT NULL,  -- the API key of the request; empty: it needed none
    idempotency_key text COLLATE "C" NOT NULL,
    attempt uuid NOT NULL,  -- a random number that identifies the attempt
    request_hash bytea NOT NULL,  -- of method, path, query string and body
    held_until timestamptz NOT NULL,  -- when the key is free again if the attempt has died
    expires_at timestamptz NOT NULL,
    status smallint,  -- NULL: the write has no answer yet
    headers jsonb,
    body bytea,  -- NULL: the answer was too long to be kept
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, key_id, idempotency_key)
);
CREATE INDEX idempotency_keys_expires_at_idx ON idempotency_keys (expires_at);

-- The tenant that each analyst's login sees. It depends only on the login itself, which an analyst cannot change by any
-- setting or role.
CREATE TABLE analyst_logins (
    login text COLLATE "C" NOT NULL,
    tenant_id bigint NOT NULL REFERENCES tenants ON DELETE CASCADE,
    added_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT analyst_logins_pkey PRIMARY KEY (login)
);
