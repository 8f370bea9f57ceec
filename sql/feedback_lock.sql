-- The number of the tenant's advisory lock on feedback. Who adds events or recounts arms shares it, and then takes the
-- arms of the items by themselves, by collection and item; who changes what events weigh (a quarantine, a half-life)
-- holds it alone. So every writer of an item has it alone, none waits in a circle, and the tenant has no row that all
-- of them change.
CREATE OR REPLACE FUNCTION feedback_lock() RETURNS bigint
LANGUAGE sql STABLE
RETURN hashtextextended('retrieval feedback ' || current_schema(), current_tenant());
GRANT EXECUTE ON FUNCTION feedback_lock() TO @app@;
REVOKE ALL ON FUNCTION feedback_lock() FROM PUBLIC;
