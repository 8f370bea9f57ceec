-- Replaces forgotten items by pseudonyms, in everything that names them.

-- Replaces the keys of removed items by their pseudonyms in all records and models, each by the same one everywhere, so
-- that figures and replays stay consistent. Call it in the transaction that removed the items, which holds the
-- collection's totals, and feedback_lock() exclusively.
-- Keys and subjects of feedback are hashes of item keys, which a guess could confirm, so they are mixed with a secret
-- that is not stored. Notes and sessions of feedback may quote an item, so they are removed.
CREATE OR REPLACE FUNCTION forget_items(collection bigint, ids text[], pseudonyms text[]) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    secret text := gen_random_uuid()::text;
    said text[] := ARRAY(SELECT to_jsonb(one)::text FROM unnest(ids) AS one);
BEGIN
    -- Each record at most once: candidates, shown items, and filters by item can all name items.
    UPDATE retrievals AS past SET
        pool_items = renamed_items(past.pool_items, ids, pseudonyms),
        shown_items = renamed_items(past.shown_items, ids, pseudonyms),
        condition = renamed_texts(past.condition, ids, pseudonyms),
        request = renamed_request(past.request, ids, pseudonyms)
    FROM (
        -- A join, because otherwise every candidate would be compared with each of the ids.
        SELECT one.retrieval_id, one.retrieved_at
        FROM retrievals AS one
        CROSS JOIN LATERAL unnest(one.pool_items || one.shown_items) AS place (item_id)
        JOIN unnest(ids) AS gone (item_id) ON gone.item_id = place.item_id
        WHERE one.collection_id = collection
        UNION
        SELECT one.retrieval_id, one.retrieved_at
        FROM retrievals AS one
        CROSS JOIN LATERAL concat(one.condition, one.request -> 'preferred') AS filters (words)
        WHERE one.collection_id = collection AND filters.words LIKE '%"item_id"%'
            AND EXISTS (SELECT FROM unnest(said) AS name WHERE strpos(filters.words, name) > 0)
    ) AS affected
    WHERE past.collection_id = collection AND past.retrieval_id = affected.retrieval_id
        AND past.retrieved_at = affected.retrieved_at;
    UPDATE query_samples AS sample SET condition = renamed_texts(sample.condition, ids, pseudonyms)
    WHERE sample.collection_id = collection AND sample.condition::text LIKE '%"item_id"%'
        AND EXISTS (SELECT FROM unnest(said) AS one WHERE strpos(sample.condition::text, one) > 0);

    UPDATE feedback AS event SET
        item_id = alias.pseudonym, note = '', session = '',
        subject = md5(event.subject::text || secret)::uuid, feedback_key = md5(event.feedback_key::text || secret)::uuid
    FROM unnest(ids, pseudonyms) AS alias (item_id, pseudonym)
    WHERE event.collection_id = collection AND event.item_id = alias.item_id COLLATE "C";
    UPDATE arms AS arm SET item_id = alias.pseudonym
    FROM unnest(ids, pseudonyms) AS alias (item_id, pseudonym)
    WHERE arm.collection_id = collection AND arm.item_id = alias.item_id COLLATE "C";
    UPDATE arm_baselines AS base SET item_id = alias.pseudonym
    FROM unnest(ids, pseudonyms) AS alias (item_id, pseudonym)
    WHERE base.collection_id = collection AND base.item_id = alias.item_id COLLATE "C";

    DELETE FROM rewarded_queries AS learned WHERE learned.collection_id = collection AND learned.item_id = ANY (ids);
    UPDATE learned_models AS model SET definition = renamed_effects(model.definition, ids, pseudonyms)
    WHERE model.collection_id = collection
        AND EXISTS (SELECT FROM unnest(said) AS one WHERE strpos(model.definition::text, one || ':') > 0);

    UPDATE memories AS memory SET superseded_by = alias.pseudonym
    FROM unnest(ids, pseudonyms) AS alias (item_id, pseudonym)
    WHERE memory.collection_id = collection AND memory.superseded_by = alias.item_id COLLATE "C";
    -- Messages of jobs about single items quote shortened keys.
    UPDATE job_runs AS run SET details = run.details - 'notes' - 'error'
    WHERE run.collection_id = collection AND run.details ?| ARRAY['notes', 'error'];
    -- Words that no item contains any longer, including words of differences that are not folded yet.
    PERFORM fold_statistics(collection);
    DELETE FROM term_statistics AS known WHERE known.collection_id = collection AND known.document_frequency = 0;
END
$$;

-- The item keys, with some of them renamed.
CREATE OR REPLACE FUNCTION renamed_items(items text[], old text[], new text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path FROM CURRENT AS $$
    SELECT ARRAY(
        SELECT coalesce(gone.pseudonym, place.item_id)
        FROM unnest(items) WITH ORDINALITY AS place (item_id, rank)
        LEFT JOIN unnest(old, new) AS gone (item_id, pseudonym) ON gone.item_id = place.item_id
        ORDER BY place.rank
    )
$$;

-- A JSON value, with some of its texts replaced.
CREATE OR REPLACE FUNCTION renamed_texts(said jsonb, old text[], new text[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path FROM CURRENT AS $$
    SELECT CASE jsonb_typeof(said)
        WHEN 'string' THEN coalesce(to_jsonb(new[array_position(old, said #>> '{}')]), said)
        WHEN 'array' THEN (
            SELECT coalesce(jsonb_agg(renamed_texts(part.value, old, new) ORDER BY part.place), '[]')
            FROM jsonb_array_elements(said) WITH ORDINALITY AS part (value, place)
        )
        WHEN 'object' THEN (
            SELECT coalesce(jsonb_object_agg(part.key, renamed_texts(part.value, old, new)), '{}')
            FROM jsonb_each(said) AS part
        )
        ELSE said
    END
$$;

-- A recorded request, with the preferred items in its filter renamed.
CREATE OR REPLACE FUNCTION renamed_request(request jsonb, old text[], new text[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path FROM CURRENT AS $$
    SELECT CASE WHEN request ? 'preferred'
        THEN jsonb_set(request, '{preferred}', renamed_texts(request -> 'preferred', old, new)) ELSE request END
$$;

-- The definition of a learned model, with the keys of items renamed: they are under "item" and "item in <bucket>".
CREATE OR REPLACE FUNCTION renamed_effects(definition jsonb, old text[], new text[]) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
DECLARE
    place text[];
    family text;
    effects jsonb;
BEGIN
    FOREACH family IN ARRAY ARRAY['reward', 'by_item'] LOOP
        FOR place IN
            SELECT ARRAY[family, 'logistic', 'effects', groups.name]
            FROM jsonb_object_keys(definition #> ARRAY[family, 'logistic', 'effects']) AS groups (name)
            WHERE groups.name = 'item' OR groups.name LIKE 'item in %'
        LOOP
            SELECT coalesce(jsonb_object_agg(coalesce(new[array_position(old, effect.key)], effect.key), effect.value), '{}')
            INTO effects FROM jsonb_each(definition #> place) AS effect;
            definition := jsonb_set(definition, place, effects);
        END LOOP;
    END LOOP;
    RETURN definition;
END
$$;

-- The items that are not stored, each with a random name, because an item may be forgotten between a search and its
-- recording. Shares the lock that forgetting holds exclusively, so that the answer is valid until the transaction ends.
-- VOLATILE, so that its queries see everything that was committed before it got the lock. Each item is named once for
-- its collection. If all of them exist, it looks up none.
-- Its plans are kept, and may be made while the table is empty, so they leave the planner no second choice.
CREATE OR REPLACE FUNCTION missing_items(collections bigint[], ids text[])
RETURNS TABLE (collection bigint, item text, pseudonym text)
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    held text;
    own bigint;
    named text[];
BEGIN
    held := pg_advisory_xact_lock_shared(feedback_lock())::text;
    FOR own, named IN
        SELECT given.collection_id, array_agg(given.item_id)
        FROM unnest(collections, ids) AS given (collection_id, item_id) GROUP BY given.collection_id
    LOOP
        -- Looked up one by one: for all of them together the planner may use an index on other columns.
        IF cardinality(named) > (
            SELECT count(*) FROM unnest(named) AS given (item_id)
            CROSS JOIN LATERAL (
                SELECT FROM items AS one WHERE one.collection_id = own AND one.item_id = given.item_id LIMIT 1
            ) AS kept
        )
        THEN
            RETURN QUERY
            SELECT own, given.item_id, 'forgotten-' || replace(gen_random_uuid()::text, '-', '')
            FROM unnest(named) AS given (item_id)
            WHERE NOT EXISTS (
                SELECT FROM items AS one WHERE one.collection_id = own AND one.item_id = given.item_id
            );
        END IF;
    END LOOP;
END
$$;

GRANT EXECUTE ON FUNCTION forget_items, renamed_items, renamed_texts, renamed_request, renamed_effects, missing_items
    TO @app@;
