-- The id of the tenant of that name, made if it is missing. Asking twice, or at the same moment, makes one.
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
ALTER FUNCTION ensure_tenant(text) OWNER TO @definer@;
