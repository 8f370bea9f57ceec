-- What a language model made of a query, kept for its tenant until it expires.
CREATE TABLE query_rewrites (
    tenant_id bigint NOT NULL,
    model text COLLATE "C" NOT NULL,
    query_hash bytea NOT NULL,  -- of the query and of the instructions that it was rewritten by
    rewrites text[] NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT query_rewrites_pkey PRIMARY KEY (tenant_id, model, query_hash),
    CONSTRAINT query_rewrites_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (tenant_id) ON DELETE CASCADE
);
ALTER TABLE query_rewrites ENABLE ROW LEVEL SECURITY;
ALTER TABLE query_rewrites FORCE ROW LEVEL SECURITY;
CREATE POLICY query_rewrites_app ON query_rewrites TO @app@
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
REVOKE ALL ON query_rewrites FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON query_rewrites TO @app@;
