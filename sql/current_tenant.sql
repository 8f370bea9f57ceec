-- The tenant that this transaction acts for; NULL where none is set, and then no row is seen.
CREATE OR REPLACE FUNCTION current_tenant() RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN nullif(current_setting('retrieval.tenant', true), '')::bigint;
