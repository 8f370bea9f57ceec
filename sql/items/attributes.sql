-- The tables for filters.

-- The instant of an ISO 8601 text; NULL for any other text, so that no value can fail an ingest. Without a zone it is
-- UTC; digits beyond microseconds are ignored.
CREATE OR REPLACE FUNCTION attribute_time(value text) RETURNS timestamptz
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE AS $$
DECLARE
    -- date, hours and minutes, seconds, fraction, zone
    parts CONSTANT text[] := regexp_match(value,
        '^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]((?:[01][0-9]|2[0-3]):[0-5][0-9])'
        '(?::([0-5][0-9])(?:[.,]([0-9]{1,6})[0-9]*)?)?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?$');
    said CONSTANT text := format('%s %s:%s.%s%s', parts[1], coalesce(parts[2], '00:00'), coalesce(parts[3], '00'),
        coalesce(parts[4], '0'), coalesce(nullif(parts[5], 'Z'), '+00'));
BEGIN
    IF parts IS NULL OR NOT pg_input_is_valid(said, 'timestamptz') THEN
        RETURN NULL;
    END IF;
    RETURN said::timestamptz;
END
$$;

-- The instants of an attribute, or of the elements of its list.
CREATE OR REPLACE FUNCTION attribute_times(value jsonb) RETURNS timestamptz[]
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN (
    SELECT array_agg(attribute_time(element))
    FROM jsonb_array_elements_text(
        CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE jsonb_build_array(value) END
    ) AS element
);

-- The double that is nearest to a JSON number.
CREATE OR REPLACE FUNCTION attribute_number(value jsonb) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN least(greatest(value::numeric, -1.7976931348623157e308), 1.7976931348623157e308)::double precision;

-- The values of these active items' declared attributes that have the declared type, with a row for each different
-- element of a list: a text or a boolean as the first 300 characters of its text, so that an index entry fits with the
-- longest name and key; a number; or an instant. A filter whose answer could depend on more does not use them.
CREATE OR REPLACE FUNCTION declared_values(collection bigint, ids text[])
RETURNS TABLE (
    item_id text, name text, place bigint, listed boolean, as_text text, as_number double precision, as_time timestamptz
)
LANGUAGE sql STABLE AS $$
    SELECT
        item.item_id, declared.name, min(element.place), given.listed, typed.as_text, typed.as_number, typed.as_time
    FROM items AS item
    JOIN collection_attributes AS declared
        ON declared.collection_id = collection AND declared.filterable IS NOT NULL
    CROSS JOIN LATERAL (
        SELECT item.attributes -> declared.name AS value,
            coalesce(jsonb_typeof(item.attributes -> declared.name) = 'array', false) AS listed
        OFFSET 0 -- takes the value out of the attributes once, and not for each element of a list
    ) AS given
    CROSS JOIN LATERAL jsonb_array_elements(
        CASE WHEN given.listed THEN given.value ELSE jsonb_build_array(given.value) END
    ) WITH ORDINALITY AS element (value, place)
    CROSS JOIN LATERAL (
        SELECT
            CASE WHEN declared.filterable IN ('text', 'boolean') THEN left(element.value #>> '{}', 300) END AS as_text,
            CASE WHEN declared.filterable = 'number' THEN attribute_number(element.value) END AS as_number,
            CASE WHEN declared.filterable = 'time' THEN attribute_time(element.value #>> '{}') END AS as_time
        WHERE jsonb_typeof(element.value) = CASE
            WHEN declared.filterable IN ('text', 'time') THEN 'string' ELSE declared.filterable END
        OFFSET 0 -- computes each value once
    ) AS typed
    WHERE item.collection_id = collection AND item.item_id = ANY (ids) AND item.status <> 'archived'
        AND num_nonnulls(typed.as_text, typed.as_number, typed.as_time) = 1 -- a text that is no time has none
    GROUP BY item.item_id, declared.name, given.listed, typed.as_text, typed.as_number, typed.as_time
$$;

-- Updates the tables for filters by the tags and declared attributes of these items: rows of archived items are
-- removed, unchanged rows are not written, and values of another type than the declared one are left out. Call it in
-- the transaction that wrote the items, under the writers' lock, so that declarations do not change meanwhile. are_new:
-- none of the items existed before.
CREATE OR REPLACE FUNCTION index_attributes(collection bigint, ids text[], are_new boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF NOT are_new THEN
        DELETE FROM item_tags AS known
        WHERE known.collection_id = collection AND known.item_id = ANY (ids) AND NOT EXISTS (
            SELECT FROM items AS item
            WHERE item.collection_id = collection AND item.item_id = known.item_id AND item.status <> 'archived'
                AND known.tag = ANY (item.tags) AND known.created_at = item.created_at
        );
    END IF;
    INSERT INTO item_tags (collection_id, tag, item_id, created_at)
    SELECT collection, tag, item.item_id, item.created_at
    FROM items AS item CROSS JOIN LATERAL unnest(item.tags) AS tag
    WHERE item.collection_id = collection AND item.item_id = ANY (ids) AND item.status <> 'archived'
    ON CONFLICT DO NOTHING;

    PERFORM FROM collection_attributes AS known WHERE known.collection_id = collection AND known.filterable IS NOT NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF NOT are_new THEN
        -- A set operation, because the planner expects few values, and would compare each with each.
        DELETE FROM attribute_values AS known
        USING (
            SELECT one.item_id, one.name, one.place, one.listed, one.as_text, one.as_number, one.as_time
            FROM attribute_values AS one WHERE one.collection_id = collection AND one.item_id = ANY (ids)
            EXCEPT
            SELECT * FROM declared_values(collection, ids)
        ) AS former
        WHERE known.collection_id = collection
            AND known.item_id = former.item_id AND known.name = former.name AND known.place = former.place;
    END IF;
    INSERT INTO attribute_values (collection_id, item_id, name, place, listed, as_text, as_number, as_time)
    SELECT collection, fresh.item_id, fresh.name, fresh.place, fresh.listed, fresh.as_text, fresh.as_number, fresh.as_time
    FROM declared_values(collection, ids) AS fresh
    ON CONFLICT DO NOTHING;
END
$$;

-- The same for all items of a collection, in parts. Call it with the writers' lock held exclusively.
CREATE OR REPLACE FUNCTION index_all_attributes(collection bigint) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    page text[];
BEGIN
    FOR page IN
        SELECT array_agg(numbered.item_id)
        FROM (
            SELECT item.item_id, (row_number() OVER () - 1) / 1000 AS part FROM items AS item
            WHERE item.collection_id = collection AND item.status <> 'archived'
        ) AS numbered
        GROUP BY numbered.part
    LOOP
        PERFORM index_attributes(collection, page);
    END LOOP;
END
$$;

GRANT EXECUTE ON FUNCTION attribute_time, attribute_times, attribute_number, declared_values, index_attributes
    TO @app@, @definer@;
GRANT EXECUTE ON FUNCTION index_all_attributes TO @app@;
