-- The tables that filters look at.

-- The instant that an ISO 8601 text says; NULL for any other text, so that no value can fail an ingest.
-- Without a zone it is UTC; digits beyond microseconds do not count.
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
REVOKE ALL ON FUNCTION attribute_time(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION attribute_time(text) TO @app@;

-- Brings the tags and the declared attributes of these items (NULL: of all items) into the tables that filters look at:
-- an active item's are kept, an archived one's are taken out; what did not change is not written.
-- Call it after index_terms, in the transaction that wrote the items: the lock on the collection's totals, which
-- writers and declarations take alike, lets nobody come between. Values of another type than the declared one are left
-- out.
-- Of a text stands as much in the index as fits there beside the longest name and key, 300 characters; of a number the
-- nearest that it can hold. A filter whose answer could depend on the rest does not look here.
-- The statements are planned for these items, the checks of foreign keys behind them once for all.
-- What was there is read with its ctid: if the primary key's index could answer alone, the planner might read all of the
-- collection in it rather than look these items up.
CREATE OR REPLACE FUNCTION index_attributes(collection bigint, ids text[]) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM FROM collection_statistics AS total WHERE total.collection_id = collection FOR UPDATE;

    EXECUTE $statement$
    WITH tags AS MATERIALIZED (
        SELECT tag COLLATE "C" AS tag, item.item_id
        FROM items AS item, unnest(item.tags) AS tag
        WHERE item.collection_id = $1 AND ($2 IS NULL OR item.item_id = ANY ($2))
            AND item.status <> 'archived'
    ),
    former_tags AS MATERIALIZED (
        SELECT known.tag, known.item_id, known.ctid FROM item_tags AS known
        WHERE known.collection_id = $1 AND ($2 IS NULL OR known.item_id = ANY ($2))
    ),
    gone_tags AS (
        DELETE FROM item_tags AS known
        WHERE known.collection_id = $1 AND ($2 IS NULL OR known.item_id = ANY ($2)) AND NOT EXISTS (
            SELECT FROM tags
            WHERE tags.tag = known.tag AND tags.item_id = known.item_id
        )
    )
    INSERT INTO item_tags (collection_id, tag, item_id)
    SELECT $1, fresh.* FROM (SELECT * FROM tags EXCEPT SELECT tag, item_id FROM former_tags) AS fresh
    $statement$ USING collection, ids;

    IF NOT EXISTS (SELECT FROM collection_attributes AS known
                   WHERE known.collection_id = collection AND known.filterable IS NOT NULL) THEN
        RETURN;
    END IF;

    EXECUTE $statement$
    WITH held AS MATERIALIZED (
        SELECT item.item_id, declared.name, declared.filterable AS type, element.value, given.listed
        FROM items AS item
        JOIN collection_attributes AS declared
            ON declared.collection_id = $1 AND declared.filterable IS NOT NULL
        CROSS JOIN LATERAL (
            SELECT item.attributes -> declared.name AS value,
                coalesce(jsonb_typeof(item.attributes -> declared.name) = 'array', false) AS listed
        ) AS given
        CROSS JOIN LATERAL jsonb_array_elements(
            CASE WHEN given.listed THEN given.value ELSE jsonb_build_array(given.value) END
        ) AS element
        WHERE item.collection_id = $1 AND ($2 IS NULL OR item.item_id = ANY ($2))
            AND item.status <> 'archived'
            AND jsonb_typeof(element.value) = CASE
                WHEN declared.filterable IN ('text', 'time') THEN 'string' ELSE declared.filterable END
    ),
    texts AS MATERIALIZED (
        SELECT held.name, left(held.value #>> '{}', 300) COLLATE "C" AS value, held.item_id, held.listed
        FROM held WHERE held.type IN ('text', 'boolean')
    ),
    numbers AS MATERIALIZED (
        SELECT
            held.name,
            least(greatest(held.value::numeric, -1.7976931348623157e308), 1.7976931348623157e308)::double precision
                AS value,
            held.item_id, held.listed
        FROM held WHERE held.type = 'number'
    ),
    times AS MATERIALIZED (
        SELECT held.name, said.value, held.item_id, held.listed
        FROM held, attribute_time(held.value #>> '{}') AS said (value)
        WHERE held.type = 'time' AND said.value IS NOT NULL
    ),
    former_texts AS MATERIALIZED (
        SELECT known.name, known.value, known.item_id, known.listed, known.ctid FROM attribute_texts AS known
        WHERE known.collection_id = $1 AND ($2 IS NULL OR known.item_id = ANY ($2))
    ),
    gone_texts AS (
        DELETE FROM attribute_texts AS known
        WHERE known.collection_id = $1 AND ($2 IS NULL OR known.item_id = ANY ($2)) AND NOT EXISTS (
            SELECT FROM texts
            WHERE texts.name = known.name AND texts.value = known.value AND texts.item_id = known.item_id
                AND texts.listed = known.listed
        )
    ),
    new_texts AS (
        INSERT INTO attribute_texts (collection_id, name, value, item_id, listed)
        SELECT $1, fresh.* FROM (
            SELECT * FROM texts EXCEPT SELECT name, value, item_id, listed FROM former_texts
        ) AS fresh
    ),
    former_numbers AS MATERIALIZED (
        SELECT known.name, known.value, known.item_id, known.listed, known.ctid FROM attribute_numbers AS known
        WHERE known.collection_id = $1 AND ($2 IS NULL OR known.item_id = ANY ($2))
    ),
    gone_numbers AS (
        DELETE FROM attribute_numbers AS known
        WHERE known.collection_id = $1 AND ($2 IS NULL OR known.item_id = ANY ($2)) AND NOT EXISTS (
            SELECT FROM numbers
            WHERE numbers.name = known.name AND numbers.value = known.value AND numbers.item_id = known.item_id
                AND numbers.listed = known.listed
        )
    ),
    new_numbers AS (
        INSERT INTO attribute_numbers (collection_id, name, value, item_id, listed)
        SELECT $1, fresh.* FROM (
            SELECT * FROM numbers EXCEPT SELECT name, value, item_id, listed FROM former_numbers
        ) AS fresh
    ),
    former_times AS MATERIALIZED (
        SELECT known.name, known.value, known.item_id, known.listed, known.ctid FROM attribute_times AS known
        WHERE known.collection_id = $1 AND ($2 IS NULL OR known.item_id = ANY ($2))
    ),
    gone_times AS (
        DELETE FROM attribute_times AS known
        WHERE known.collection_id = $1 AND ($2 IS NULL OR known.item_id = ANY ($2)) AND NOT EXISTS (
            SELECT FROM times
            WHERE times.name = known.name AND times.value = known.value AND times.item_id = known.item_id
                AND times.listed = known.listed
        )
    )
    INSERT INTO attribute_times (collection_id, name, value, item_id, listed)
    SELECT $1, fresh.* FROM (
        SELECT * FROM times EXCEPT SELECT name, value, item_id, listed FROM former_times
    ) AS fresh
    $statement$ USING collection, ids;
END
$$;
REVOKE ALL ON FUNCTION index_attributes(bigint, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION index_attributes(bigint, text[]) TO @app@;
