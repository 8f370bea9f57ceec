-- The items of a collection that rank best for a query by BM25, best first, from the GIN index.
-- Ranking an item costs ten times what finding it in the index costs, so the index chooses: the items that hold one of
-- the query's rarest parts (of as many as match 1,000 items together, always one), and of the next parts (to 20,000
-- matches, or 15 % of a larger collection) the items that hold two. Those are ranked by all parts. Two numbers differ in
-- some bit: the items with two of up to 32 parts are those with a part whose number has a bit and a part whose number
-- has it not, for one of five bits. A page that is not full is sought again among more items.
-- match_budget, if given, replaces all this: the items with one of the rarest parts that match so many together.
-- A lexeme's number is its collection's own, so the index alone finds the collection's items; adding 0 keeps the planner
-- from also reading the collection's whole key, and the collection is still checked, because two numbers can collide. The
-- plan is the same for all arrays and kept. It owns its rights, because `&&` is not leakproof and a policy would keep the
-- planner from the index; so it checks the tenant first.
CREATE OR REPLACE FUNCTION lexical_search(
    collection bigint, query text, prefixes text[], match_budget integer, result_limit integer
)
RETURNS TABLE (item_id text, score real)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    query_weights sparsevec;
    lexemes integer[];
    places bigint[];
    matches bigint[];
    few bigint := coalesce(match_budget, greatest(1000, result_limit));
    many bigint;
    rarest integer[];
    -- The parts that the items must hold two of, by the bits of their number.
    has_1 integer[]; has_2 integer[]; has_4 integer[]; has_8 integer[]; has_16 integer[];
    not_1 integer[]; not_2 integer[]; not_4 integer[]; not_8 integer[]; not_16 integer[];
    is_everything boolean;
    ids text[];
    scores real[];
BEGIN
    PERFORM FROM collections AS owner
    WHERE owner.collection_id = collection AND owner.tenant_id = current_tenant();
    IF NOT FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('collection %s is not the current tenant''s', collection);
    END IF;

    SELECT
        ('{' || string_agg(term.lexeme || ':' || term.idf, ',') || '}/1000000000')::sparsevec,
        array_agg(term.lexeme), array_agg(term.place), array_agg(term.matches)
    INTO query_weights, lexemes, places, matches
    FROM (
        SELECT
            ranked.lexeme, ranked.idf, ranked.place,
            sum(CASE WHEN ranked.is_first THEN ranked.document_frequency ELSE 0 END)
                OVER (ORDER BY ranked.place) AS matches
        FROM (
            SELECT
                known.lexeme, known.idf, known.document_frequency,
                dense_rank() OVER (ORDER BY known.document_frequency, known.part) AS place,
                row_number() OVER (PARTITION BY known.part ORDER BY known.lexeme) = 1 AS is_first
            FROM query_terms(collection, query, prefixes) AS known
        ) AS ranked
    ) AS term;
    IF lexemes IS NULL THEN
        RETURN;
    END IF;
    SELECT CASE WHEN match_budget IS NULL THEN greatest(20000, total.documents * 15 / 100) ELSE 0 END INTO many
    FROM collection_statistics AS total WHERE total.collection_id = collection;

    LOOP
        SELECT
            coalesce(array_agg(lexeme) FILTER (WHERE is_rare), '{}'), bool_and(is_rare),
            coalesce(array_agg(lexeme) FILTER (WHERE number & 1 > 0), '{}'),
            coalesce(array_agg(lexeme) FILTER (WHERE number & 1 = 0), '{}'),
            coalesce(array_agg(lexeme) FILTER (WHERE number & 2 > 0), '{}'),
            coalesce(array_agg(lexeme) FILTER (WHERE number & 2 = 0), '{}'),
            coalesce(array_agg(lexeme) FILTER (WHERE number & 4 > 0), '{}'),
            coalesce(array_agg(lexeme) FILTER (WHERE number & 4 = 0), '{}'),
            coalesce(array_agg(lexeme) FILTER (WHERE number & 8 > 0), '{}'),
            coalesce(array_agg(lexeme) FILTER (WHERE number & 8 = 0), '{}'),
            coalesce(array_agg(lexeme) FILTER (WHERE number & 16 > 0), '{}'),
            coalesce(array_agg(lexeme) FILTER (WHERE number & 16 = 0), '{}')
        INTO rarest, is_everything, has_1, not_1, has_2, not_2, has_4, not_4, has_8, not_8, has_16, not_16
        FROM (
            SELECT
                part.lexeme, part.is_rare,
                CASE WHEN NOT part.is_rare AND part.matches <= many AND part.place - part.rare <= 32
                    THEN part.place - part.rare - 1 END AS number
            FROM (
                SELECT
                    term.lexeme, term.place, term.matches, term.place = 1 OR term.matches <= few AS is_rare,
                    max(term.place) FILTER (WHERE term.place = 1 OR term.matches <= few) OVER () AS rare
                FROM unnest(lexemes, places, matches) AS term (lexeme, place, matches)
            ) AS part
        ) AS numbered;

        SELECT array_agg(best.item_id), array_agg(best.score) INTO ids, scores
        FROM (
            SELECT terms.item_id, (-(terms.weights <#> query_weights))::real AS score
            FROM item_terms AS terms
            WHERE terms.collection_id + 0 = collection AND (
                terms.lexemes && rarest
                OR (terms.lexemes && has_1 AND terms.lexemes && not_1)
                OR (terms.lexemes && has_2 AND terms.lexemes && not_2)
                OR (terms.lexemes && has_4 AND terms.lexemes && not_4)
                OR (terms.lexemes && has_8 AND terms.lexemes && not_8)
                OR (terms.lexemes && has_16 AND terms.lexemes && not_16)
            )
            ORDER BY terms.weights <#> query_weights, terms.item_id
            LIMIT result_limit
        ) AS best;
        EXIT WHEN is_everything OR match_budget IS NOT NULL OR cardinality(ids) >= result_limit;
        few := few * 8;
    END LOOP;
    RETURN QUERY SELECT found.item_id, found.score FROM unnest(ids, scores) AS found (item_id, score);
END
$$;
ALTER FUNCTION lexical_search(bigint, text, text[], integer, integer) OWNER TO @definer@;

REVOKE ALL ON FUNCTION lexical_search(bigint, text, text[], integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lexical_search(bigint, text, text[], integer, integer) TO @app@;
