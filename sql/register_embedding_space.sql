-- The id of an embedding space, made with its own table if it is new. One table a space, its column typed with the
-- space's dimensions: vectors of another space cannot get in, and dropping a space is dropping a table.
-- It takes what the platform can make (retrieval/domain/embedding.py): a space of other values could be neither read nor
-- indexed, by any tenant.
-- Vectors are stored plain (never compressed or moved out of line), which makes exact scans about three times cheaper.
CREATE OR REPLACE FUNCTION register_embedding_space(
    new_provider text, new_model text, new_revision text, new_dimensions integer,
    new_distance text, new_document_prefix text, new_query_prefix text
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    found_id bigint;
    vectors text;
BEGIN
    IF (
        char_length(new_provider) BETWEEN 1 AND 500 AND char_length(new_model) BETWEEN 1 AND 500
        AND char_length(new_revision) <= 500 AND char_length(new_document_prefix) <= 500
        AND char_length(new_query_prefix) <= 500 AND new_dimensions BETWEEN 1 AND 4000 AND new_distance = 'cosine'
    ) IS NOT TRUE THEN
        RAISE invalid_parameter_value USING MESSAGE =
            'an embedding space has a provider and a model of 1 to 500 characters, a revision and prefixes of at most '
            '500, 1 to 4000 dimensions and the distance cosine';
    END IF;
    SELECT space_id INTO found_id FROM embedding_spaces
    WHERE (provider, model, revision, dimensions, distance, document_prefix, query_prefix)
        = (new_provider, new_model, new_revision, new_dimensions, new_distance, new_document_prefix, new_query_prefix);
    IF found_id IS NOT NULL THEN
        RETURN found_id;
    END IF;

    INSERT INTO embedding_spaces
        (provider, model, revision, dimensions, distance, document_prefix, query_prefix)
    VALUES
        (new_provider, new_model, new_revision, new_dimensions, new_distance, new_document_prefix, new_query_prefix)
    ON CONFLICT DO NOTHING
    RETURNING space_id INTO found_id;
    IF found_id IS NULL THEN -- another transaction made it at the same moment, and has committed
        RETURN register_embedding_space(new_provider, new_model, new_revision, new_dimensions,
                                        new_distance, new_document_prefix, new_query_prefix);
    END IF;

    vectors := 'embeddings_' || found_id;
    EXECUTE format(
        'CREATE TABLE %1$I (
             collection_id bigint NOT NULL,
             item_id text COLLATE "C" NOT NULL,
             vector halfvec(%2$s) NOT NULL,
             content_hash bytea NOT NULL,
             PRIMARY KEY (collection_id, item_id),
             FOREIGN KEY (collection_id, item_id) REFERENCES items ON DELETE CASCADE
         ) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05)', vectors, new_dimensions);
    EXECUTE format('ALTER TABLE %I ALTER COLUMN vector SET STORAGE PLAIN', vectors);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', vectors);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', vectors);
    EXECUTE format('CREATE POLICY app ON %I TO %I
                    USING (collection_id IN (SELECT c.collection_id FROM collections c))
                    WITH CHECK (collection_id IN (SELECT c.collection_id FROM collections c))', vectors, @app_literal@);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO %I', vectors, @app_literal@);
    RETURN found_id;
END
$$;
ALTER FUNCTION register_embedding_space(text, text, text, integer, text, text, text) OWNER TO @definer@;
REVOKE ALL ON FUNCTION register_embedding_space(text, text, text, integer, text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION register_embedding_space(text, text, text, integer, text, text, text) TO @app@;
