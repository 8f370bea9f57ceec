-- Searches for items by their facets. A clause is a field with values (a JSON array) of which an item must have one.
-- The functions run with their owner's rights, because `&&` is not leakproof, so that a policy would exclude the index;
-- so they check the tenant first. Adding 0 to collection_id keeps the planner from reading the collection's whole
-- primary key instead.

-- The facets of a plain conjunction: of all_of an item must have each, of any_of one. is_plain: at most one clause has
-- several values.
CREATE OR REPLACE FUNCTION plain_facets(
    collection bigint, fields text[], wanted jsonb[],
    OUT any_of uuid[], OUT all_of uuid[], OUT is_plain boolean
)
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
BEGIN
    all_of := '{}';
    is_plain := true;
    FOR place IN 1 .. cardinality(fields) LOOP
        IF jsonb_array_length(wanted[place]) = 1 THEN
            all_of := all_of || facet(collection, fields[place], wanted[place] -> 0);
        ELSE
            is_plain := is_plain AND any_of IS NULL;
            any_of := facets_wanted(collection, fields[place], wanted[place]);
        END IF;
    END LOOP;
    IF any_of IS NULL THEN
        any_of := all_of[:1];
        all_of := all_of[2:];
    END IF;
END
$$;

-- The condition of any conjunction on a row `known` with facets, for EXECUTE with the facets as $1 and the collection
-- as $2.
CREATE OR REPLACE FUNCTION facet_condition(
    collection bigint, fields text[], wanted jsonb[], OUT facets uuid[], OUT condition text
)
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
DECLARE
    any_of uuid[];
BEGIN
    facets := '{}';
    condition := 'known.collection_id + 0 = $2';
    FOR place IN 1 .. cardinality(fields) LOOP
        any_of := facets_wanted(collection, fields[place], wanted[place]);
        condition := condition || format(
            ' AND known.facets && $1[%s:%s]', cardinality(facets) + 1, cardinality(facets) + cardinality(any_of)
        );
        facets := facets || any_of;
    END LOOP;
END
$$;

-- The active items with a value of each clause, at most this number (NULL: all).
CREATE OR REPLACE FUNCTION items_with_facets(collection bigint, fields text[], wanted jsonb[], most bigint)
RETURNS TABLE (item_id text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    plain record;
    general record;
BEGIN
    PERFORM check_tenant(collection);
    plain := plain_facets(collection, fields, wanted);
    IF plain.is_plain THEN
        RETURN QUERY
        SELECT item.item_id FROM items AS item
        WHERE item.facets && plain.any_of AND item.facets @> plain.all_of AND item.collection_id + 0 = collection
        LIMIT most;
        RETURN;
    END IF;
    general := facet_condition(collection, fields, wanted);
    RETURN QUERY EXECUTE 'SELECT known.item_id FROM items AS known WHERE ' || general.condition || ' LIMIT $3'
    USING general.facets, collection, most;
END
$$;

-- The items of a collection with a value of each clause, nearest first, by comparing the vectors of all of them: at
-- most `depth` rows of item_id and cosine similarity, and one row without item_id with the number of matches. Empty if
-- more than `few` match (NULL: no limit; below 0: always empty). Vectors have unit length, so the negative inner
-- product is the negative cosine.
CREATE OR REPLACE FUNCTION nearest_with_facets(
    collection bigint, space bigint, query halfvec, fields text[], wanted jsonb[], few bigint, depth bigint
)
RETURNS TABLE (item_id text, score double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    given record;
    matches bigint;
    ids text[];
    distances double precision[];
BEGIN
    PERFORM check_tenant(collection);
    IF few < 0 THEN
        RETURN;
    END IF;

    given := facet_condition(collection, fields, wanted);
    EXECUTE format(
        'SELECT count(*), array_agg(one.item_id), array_agg(one.distance) FROM (
             SELECT known.item_id, known.vector <#> $3 AS distance FROM %I AS known WHERE %s LIMIT $4 + 1
         ) AS one', 'embeddings_' || space, given.condition)
    INTO matches, ids, distances USING given.facets, collection, query, few;
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
ALTER FUNCTION nearest_with_facets OWNER TO @definer@;
GRANT EXECUTE ON FUNCTION plain_facets, facet_condition TO @definer@;
GRANT EXECUTE ON FUNCTION items_with_facets, nearest_with_facets TO @app@;
