-- Brings what was indexed before up to date, as each tenant in turn, because the policies hold here too: spells out the
-- known terms, and indexes the items in scripts without spaces again, whose terms are more now.
DO $spell$
DECLARE
    former text := current_setting('role');
    tenants bigint[];
    tenant bigint;
    owned record;
BEGIN
    PERFORM set_config('role', @definer_literal@, true);
    tenants := ARRAY(SELECT tenant_id FROM tenants);
    PERFORM set_config('role', @app_literal@, true);
    FOREACH tenant IN ARRAY tenants LOOP
        PERFORM set_config('retrieval.tenant', tenant::text, true);
        FOR owned IN SELECT c.collection_id FROM collections AS c ORDER BY c.collection_id LOOP
            PERFORM name_terms(owned.collection_id);
            PERFORM index_terms(owned.collection_id, array_agg(item.item_id))
            FROM items AS item
            WHERE item.collection_id = owned.collection_id
                AND item.title || item.body ~ ('[\uFF00-\uFFEF' || unspaced() || ']')
            HAVING count(*) > 0;
        END LOOP;
    END LOOP;
    PERFORM set_config('retrieval.tenant', '', true);
    PERFORM set_config('role', former, true);
END
$spell$;
