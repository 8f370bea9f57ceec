-- Every tenant's collections, for the worker, which acts for one tenant after the other. Not for the application role:
-- only who may act as the definer role can ask.
CREATE OR REPLACE FUNCTION every_collection() RETURNS TABLE (tenant_id bigint, collection_id bigint, name text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT c.tenant_id, c.collection_id, c.name FROM collections AS c ORDER BY c.tenant_id, c.name
$$;
ALTER FUNCTION every_collection() OWNER TO @definer@;
REVOKE ALL ON FUNCTION every_collection() FROM PUBLIC;
