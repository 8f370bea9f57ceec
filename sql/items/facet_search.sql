-- Searches for items by their facets. The functions run with their owner's rights, because `&&` is not leakproof, so that
-- a policy would exclude the index; so they check the tenant first. Adding 0 to collection_id keeps the planner from
-- reading the collection's whole primary key instead.

-- The active items of a plain conjunction, with one facet of any_of and each of all_of, at most this number (NULL: all).
CREATE OR REPLACE FUNCTION items_with_facets(collection bigint, any_of uuid[], all_of uuid[], most bigint)
RETURNS TABLE (item_id text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM check_tenant(collection);
    RETURN QUERY
    SELECT item.item_id FROM items AS item
    WHERE item.facets && any_of AND item.facets @> all_of AND item.collection_id + 0 = collection
    LIMIT most;
END
$$;

-- The condition that a row `known` of the collection $1 has a facet of each clause, for EXECUTE with the clauses as $2:
-- texts of arrays of facets.
CREATE OR REPLACE FUNCTION clauses_condition(clauses text[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path FROM CURRENT
RETURN (
    SELECT 'known.collection_id + 0 = $1' || string_agg(format(' AND known.facets && $2[%s]::uuid[]', place), '')
    FROM generate_subscripts(clauses, 1) AS place
);

-- The same for any conjunction.
CREATE OR REPLACE FUNCTION items_with_clauses(collection bigint, clauses text[], most bigint)
RETURNS TABLE (item_id text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM check_tenant(collection);
    RETURN QUERY EXECUTE
        'SELECT known.item_id FROM items AS known WHERE ' || clauses_condition(clauses) || ' LIMIT $3'
    USING collection, clauses, most;
END
$$;

-- The items of a collection with a facet of each clause, nearest first, by comparing the vectors of all of them: at most
-- `depth` rows of item_id and cosine similarity, and one row without item_id with the number of matches. Empty if more
-- than `few` match (NULL: no limit). Vectors have unit length, so the negative inner product is the negative cosine.
CREATE OR REPLACE FUNCTION nearest_with_clauses(
    collection bigint, space bigint, query halfvec, clauses text[], few bigint, depth bigint
)
RETURNS TABLE (item_id text, score double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    matches bigint;
    ids text[];
    distances double precision[];
BEGIN
    PERFORM check_tenant(collection);
    EXECUTE format(
        'SELECT count(*), array_agg(one.item_id), array_agg(one.distance) FROM (
             SELECT known.item_id, known.vector <#> $3 AS distance FROM %I AS known WHERE %s LIMIT $4 + 1
         ) AS one', 'embeddings_' || space, clauses_condition(clauses))
    INTO matches, ids, distances USING collection, clauses, query, few;
    IF matches > few THEN
        RETURN;
    END IF;
    RETURN QUERY (
        SELECT near.item_id, -near.distance FROM unnest(ids, distances) AS near (item_id, distance)
        ORDER BY near.distance, near.item_id COLLATE "C" LIMIT depth
    ) UNION ALL SELECT NULL, matches;
END
$$;

ALTER FUNCTION items_with_facets OWNER TO @definer@;
ALTER FUNCTION items_with_clauses OWNER TO @definer@;
ALTER FUNCTION nearest_with_clauses OWNER TO @definer@;
GRANT EXECUTE ON FUNCTION clauses_condition TO @definer@;
GRANT EXECUTE ON FUNCTION items_with_facets, items_with_clauses, nearest_with_clauses TO @app@;
