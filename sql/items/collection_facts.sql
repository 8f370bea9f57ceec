-- A collection's HNSW index in a space, with its measurements, or only its kind and parts before they exist. While one
-- index replaces another: the measured one, else the latest. NULL: there is no valid index with all its parts.
CREATE OR REPLACE FUNCTION hnsw_index(collection bigint, space bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    own text := 'embeddings_' || space || '_' || collection || '_hnsw';
    forms jsonb; -- the latest first
BEGIN
    SELECT
        jsonb_agg(
            jsonb_build_object('is_quantised', whole.is_quantised, 'parts', whole.parts) ORDER BY whole.latest DESC
        )
    INTO forms
    FROM (
        SELECT one.is_quantised, one.parts, max(one.number) AS latest
        FROM (
            -- An index on an expression is quantised; any other has the full vectors.
            SELECT
                i.indexrelid AS number, i.indkey[0] = 0 AS is_quantised,
                coalesce(substring(k.relname FROM '_of_(\d+)$')::integer, 1) AS parts
            FROM pg_index AS i
            JOIN pg_class AS k ON k.oid = i.indexrelid
            JOIN pg_namespace AS n ON n.oid = k.relnamespace
            WHERE i.indisvalid AND n.nspname = current_schema()
                AND k.relname >= own AND k.relname < own || '`' -- the character after the underscore
                AND k.relname ~ ('^' || own || '(_bits)?(_\d+_of_\d+)?$')
        ) AS one
        GROUP BY one.is_quantised, one.parts
        HAVING count(*) = one.parts
    ) AS whole;
    IF forms IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN coalesce(
        (
            SELECT to_jsonb(a) FROM ann_indexes AS a
            WHERE a.collection_id = collection AND a.space_id = space
                AND forms @> jsonb_build_array(jsonb_build_object('is_quantised', a.is_quantised, 'parts', a.parts))
        ),
        forms -> 0
    );
END
$$;
GRANT EXECUTE ON FUNCTION hnsw_index(bigint, bigint) TO @app@;

-- All facts that a search needs about its collection. In a function, because its plan is kept: planning the statement
-- takes three times as long as running it. in_space: the facts for that space; NULL: for the one that its searches use.
CREATE OR REPLACE FUNCTION collection_facts(collection bigint, in_space bigint DEFAULT NULL)
RETURNS TABLE (
    text_search_config text, definition jsonb, profile_version integer, documents bigint,
    space_id bigint, provider text, model text, revision text, dimensions integer, distance text,
    document_prefix text, query_prefix text,
    ann_index jsonb,  -- as measured, its kind and parts alone before; NULL: there is no valid index
    attributes jsonb, filterable jsonb, model_version integer, clustered_at timestamptz, neighbours jsonb,
    has_expiring boolean, note text, attribute_schema jsonb, index_kind text, parts integer
)
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
    SELECT
        c.text_search_config, p.definition, c.profile_version,
        (coalesce((SELECT t.documents FROM collection_statistics AS t WHERE t.collection_id = collection), 0)
            + coalesce((
                SELECT sum(w.documents) FROM statistics_changes AS w WHERE w.collection_id = collection
            ), 0))::bigint,
        s.space_id, s.provider, s.model, s.revision, s.dimensions, s.distance, s.document_prefix, s.query_prefix,
        hnsw_index(collection, s.space_id),
        coalesce((
            SELECT jsonb_object_agg(a.name, a.types) FROM collection_attributes AS a
            WHERE a.collection_id = collection
        ), '{}'),
        coalesce((
            SELECT jsonb_object_agg(a.name, a.filterable) FROM collection_attributes AS a
            WHERE a.collection_id = collection AND a.filterable IS NOT NULL AND NOT a.is_dropped
        ), '{}'),
        coalesce((SELECT l.model_version FROM learning_states AS l WHERE l.collection_id = collection), 0),
        (SELECT max(k.computed_at) FROM cluster_centroids AS k
         WHERE k.collection_id = collection AND k.space_id = s.space_id),
        c.neighbours,
        EXISTS (SELECT FROM memories AS m WHERE m.collection_id = collection AND m.expires_at IS NOT NULL),
        p.note,
        c.attribute_schema, c.index_kind, c.parts
    FROM collections AS c
    JOIN profiles AS p ON p.collection_id = c.collection_id AND p.version = c.profile_version
    LEFT JOIN embedding_spaces AS s ON s.space_id = coalesce(in_space, c.space_id)
    WHERE c.collection_id = collection;
END
$$;
GRANT EXECUTE ON FUNCTION collection_facts(bigint, bigint) TO @app@;
