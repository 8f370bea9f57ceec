-- The context buckets of a retrieval, as retrieval.domain.context.Context.buckets gives them; the first is the item by
-- itself.
CREATE OR REPLACE FUNCTION context_buckets(domain text, complexity double precision, cluster integer)
RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY['']
    || CASE WHEN domain <> '' THEN ARRAY['domain=' || domain] ELSE '{}' END
    || CASE
        WHEN complexity IS NULL THEN '{}'
        WHEN complexity < 1::double precision / 3 THEN ARRAY['complexity=low']
        WHEN complexity < 2::double precision / 3 THEN ARRAY['complexity=medium']
        ELSE ARRAY['complexity=high']
    END
    || CASE WHEN cluster IS NULL THEN '{}' ELSE ARRAY['cluster=' || cluster] END;
GRANT EXECUTE ON FUNCTION context_buckets(text, double precision, integer) TO @app@;
REVOKE ALL ON FUNCTION context_buckets(text, double precision, integer) FROM PUBLIC;
