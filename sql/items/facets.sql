-- What items can be filtered by without anything being declared: a number for each value of each attribute.

-- The numbers of an item's attributes: of each name with its value, and with each element of a list of up to 64; of a
-- longer list the name alone, with the empty list. They are the collection's own, so that the index alone finds its
-- items. Equal JSON values have equal numbers; different ones may have too: who finds items by them looks at the values.
-- Bound to pg_catalog when it is made, because a generated column calls it whatever the search path is.
CREATE FUNCTION facets_of(collection bigint, attributes jsonb) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
    SELECT coalesce(
        array_agg(DISTINCT jsonb_hash_extended(given.value, hashtextextended(given.name COLLATE "C", collection))), '{}'
    )
    FROM (
        SELECT alone.key AS name, alone.value FROM jsonb_each(attributes) AS alone
        WHERE jsonb_typeof(alone.value) IN ('string', 'number', 'boolean')
        UNION ALL
        SELECT list.key, element.value
        FROM jsonb_each(attributes) AS list
        CROSS JOIN LATERAL jsonb_array_elements(
            CASE WHEN jsonb_typeof(list.value) <> 'array' THEN '[]'
                WHEN jsonb_array_length(list.value) > 64 THEN '[[]]'
                ELSE list.value
            END
        ) AS element
        WHERE jsonb_typeof(element.value) IN ('string', 'number', 'boolean') OR element.value = '[]'
    ) AS given
);
REVOKE ALL ON FUNCTION facets_of(bigint, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION facets_of(bigint, jsonb) TO @app@, @definer@;
