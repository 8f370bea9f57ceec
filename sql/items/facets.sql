-- Facets: each represents one value of one field.

-- The facet of a value: 128 bits of a hash of the collection, the value as JSON, and the field (kind, status, tags, or
-- a dot and an attribute's name). Another value with the same facet would take 2^128 attempts to find, so facets are
-- not verified by the values. The hash includes the collection, so that an index of facets finds the collection's
-- items. Equal numbers have the same facet: 1 is 1.0.
-- The body is bound to pg_catalog at creation, because a generated column calls it with any search path.
CREATE FUNCTION facet(collection bigint, field text, value jsonb) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN encode(
    substring(
        sha256(replace(
            collection::text || ' '
            || CASE jsonb_typeof(value) WHEN 'number' THEN trim_scale(value::numeric)::text ELSE value::text END
            || ' ' || field,
            '\', '\\' -- a cast to bytea reads a backslash as the beginning of a number
        )::bytea)
        FOR 16
    ),
    'hex'
)::uuid;

-- An item's facets: for each field with its value, or with each element of a list.
-- In PL/pgSQL, because each statement that writes an item would parse and plan an SQL function again.
CREATE FUNCTION facets_of(collection bigint, attributes jsonb, tags text[], kind text, status text)
RETURNS uuid[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
BEGIN
    RETURN ARRAY(
        SELECT DISTINCT facet(collection, one.field, one.value)
        FROM (
            -- The path gives the elements of a list, and any other value itself.
            SELECT '.' || has.key AS field, jsonb_path_query(has.value, '$[*]') AS value FROM jsonb_each(attributes) AS has
            UNION ALL
            SELECT 'tags', to_jsonb(unnest(tags))
            UNION ALL
            VALUES ('kind', to_jsonb(kind)), ('status', to_jsonb(status))
        ) AS one
        WHERE jsonb_typeof(one.value) IN ('string', 'number', 'boolean')
        ORDER BY 1
    );
END
$$;

GRANT EXECUTE ON FUNCTION facet, facets_of TO @app@, @definer@;
