-- Searches for items by their facets. A clause is a field with values (a JSON array) of which an item must have one.
-- The functions run with their owner's rights, because `&&` is not leakproof, so that a policy would exclude the index;
-- so they check the tenant first. Adding 0 to collection_id keeps the planner from reading the collection's whole
-- primary key instead.

-- Whether an item has a value of each clause: for items with lists that are too long for a facet of each element.
CREATE OR REPLACE FUNCTION has_values(collection bigint, id text, fields text[], wanted jsonb[]) RETURNS boolean
LANGUAGE sql STABLE
RETURN (
    SELECT bool_and(EXISTS (
        SELECT FROM jsonb_array_elements(
            CASE jsonb_typeof(given.value) WHEN 'array' THEN given.value ELSE jsonb_build_array(given.value) END
        ) AS element
        WHERE element.value IN (SELECT one.value FROM jsonb_array_elements(clause.wanted) AS one)
    ))
    FROM items AS item
    CROSS JOIN unnest(fields, wanted) AS clause (field, wanted)
    CROSS JOIN LATERAL (
        SELECT CASE clause.field
            WHEN 'tags' THEN to_jsonb(item.tags)
            WHEN 'kind' THEN to_jsonb(item.kind)
            WHEN 'status' THEN to_jsonb(item.status)
            ELSE item.attributes -> substr(clause.field, 2)
        END AS value
    ) AS given
    WHERE item.collection_id = collection AND item.item_id = id
);

-- The facets of a plain conjunction: of all_of an item must have each, of any_of one. is_plain: at most one clause has
-- several values. too_long: the facets of items whose list in one of the fields is too long for facets.
CREATE OR REPLACE FUNCTION plain_facets(
    collection bigint, fields text[], wanted jsonb[],
    OUT any_of uuid[], OUT all_of uuid[], OUT too_long uuid[], OUT is_plain boolean
)
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
BEGIN
    all_of := '{}';
    too_long := '{}';
    is_plain := true;
    FOR place IN 1 .. cardinality(fields) LOOP
        too_long := too_long || facet(collection, fields[place], '[]');
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

-- The condition of any conjunction on a row `known` with facets, for EXECUTE with the facets as $1, the collection as
-- $2, too_long as $3, fields as $4 and wanted as $5. Only if some item has too long a list, its values are compared:
-- comparing each row's facets once more takes as long as comparing its vector, and hardly any collection has such lists.
CREATE OR REPLACE FUNCTION facet_condition(
    collection bigint, fields text[], wanted jsonb[], OUT facets uuid[], OUT too_long uuid[], OUT condition text
)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    any_of uuid[];
BEGIN
    facets := '{}';
    too_long := '{}';
    condition := 'known.collection_id + 0 = $2';
    FOR place IN 1 .. cardinality(fields) LOOP
        any_of := facets_wanted(collection, fields[place], wanted[place]);
        condition := condition || format(
            ' AND known.facets && $1[%s:%s]', cardinality(facets) + 1, cardinality(facets) + cardinality(any_of)
        );
        facets := facets || any_of;
        too_long := too_long || any_of[cardinality(any_of)];
    END LOOP;
    PERFORM FROM items AS item WHERE item.facets && too_long AND item.collection_id + 0 = collection LIMIT 1;
    IF FOUND THEN
        condition := condition || ' AND (NOT known.facets && $3 OR has_values($2, known.item_id, $4, $5))';
    END IF;
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
    PERFORM FROM items AS item WHERE item.facets && plain.too_long AND item.collection_id + 0 = collection LIMIT 1;
    IF plain.is_plain AND NOT FOUND THEN
        RETURN QUERY
        SELECT item.item_id FROM items AS item
        WHERE item.facets && plain.any_of AND item.facets @> plain.all_of AND item.collection_id + 0 = collection
        LIMIT most;
        RETURN;
    END IF;
    general := facet_condition(collection, fields, wanted);
    RETURN QUERY EXECUTE 'SELECT known.item_id FROM items AS known WHERE ' || general.condition || ' LIMIT $6'
    USING general.facets, collection, general.too_long, fields, wanted, most;
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
             SELECT known.item_id, known.vector <#> $6 AS distance FROM %I AS known WHERE %s LIMIT $7 + 1
         ) AS one', 'embeddings_' || space, given.condition)
    INTO matches, ids, distances USING given.facets, collection, given.too_long, fields, wanted, query, few;
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
GRANT EXECUTE ON FUNCTION has_values TO @app@, @definer@;
GRANT EXECUTE ON FUNCTION plain_facets, facet_condition TO @definer@;
GRANT EXECUTE ON FUNCTION items_with_facets, nearest_with_facets TO @app@;
