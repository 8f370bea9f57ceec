-- Searches of the lexical index: by BM25, and for phrases.

-- The query's side of BM25: the idf of each of its terms that the collection knows. NULL where it knows none.
-- In PL/pgSQL, which keeps the plan for the connection's next search: making one costs more than what it does. It owns its
-- rights as lexical_search does: the plans of query_terms would be made anew whenever another role asks.
CREATE OR REPLACE FUNCTION lexical_query(collection bigint, query text, prefixes text[]) RETURNS sparsevec
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM check_tenant(collection);
    RETURN (
        SELECT ('{' || string_agg(term.lexeme || ':' || term.idf, ',') || '}/1000000000')::sparsevec
        FROM query_terms(collection, query, prefixes) AS term
    );
END
$$;

ALTER FUNCTION lexical_query(bigint, text, text[]) OWNER TO @definer@;

REVOKE ALL ON FUNCTION lexical_query(bigint, text, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lexical_query(bigint, text, text[]) TO @app@;

-- The items of a collection that rank best for a query by BM25, best first, from the GIN index.
-- Ranking an item costs ten times what finding it in the index costs, so the index chooses: the items that hold one of
-- the query's rarest parts (of as many as match 500 items together, always one), and of the next parts (to 4,000
-- matches, or 15 % of a larger collection) the items that hold two. Those are ranked by all parts. Two numbers differ in
-- some bit: the items with two of up to 32 parts are those with a part whose number has a bit and a part whose number
-- has it not, for one of five bits. A page that is not full is sought again among more items.
-- Where the extension pg_textsearch serves the collection, it finds the items (textsearch_search), unless the
-- setting retrieval.textsearch is off.
-- match_budget, if given, replaces all this: the items with one of the rarest parts that match so many together.
-- A lexeme's number is its collection's own, so the index alone finds the collection's items; adding 0 keeps the planner
-- from also reading the collection's whole key, and the collection is still checked, because two numbers can collide. The
-- plan is the same for all arrays and kept. weights: the query's side, the same in each row, for who weighs further
-- items; NULL where the extension found them. It owns its rights, because `&&` is not leakproof and a policy would keep the
-- planner from the index; so it checks the tenant first.
CREATE OR REPLACE FUNCTION lexical_search(
    collection bigint, query text, prefixes text[], match_budget integer, result_limit integer
)
RETURNS TABLE (item_id text, score real, weights sparsevec)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    query_weights sparsevec;
    lexemes integer[];
    places bigint[];
    matches bigint[];
    few bigint := coalesce(match_budget, greatest(500, result_limit));
    many bigint;
    rarest integer[];
    -- The parts that the items must hold two of, by the bits of their number.
    has_1 integer[]; has_2 integer[]; has_4 integer[]; has_8 integer[]; has_16 integer[];
    not_1 integer[]; not_2 integer[]; not_4 integer[]; not_8 integer[]; not_16 integer[];
    is_everything boolean;
    ids text[];
    scores real[];
BEGIN
    PERFORM check_tenant(collection);

    IF cardinality(prefixes) = 0 AND current_setting('retrieval.textsearch', true) IS DISTINCT FROM 'off'
        AND has_textsearch(collection) THEN
        RETURN QUERY
        SELECT found.item_id, found.score, NULL::sparsevec
        FROM textsearch_search(collection, query, result_limit) AS found;
        RETURN;
    END IF;

    -- Their places, and how many items match a part and all that are rarer.
    SELECT
        ('{' || string_agg(term.lexeme || ':' || term.idf, ',') || '}/1000000000')::sparsevec,
        array_agg(term.lexeme), array_agg(term.place), array_agg(term.matches)
    INTO query_weights, lexemes, places, matches
    FROM (
        SELECT
            ranked.lexeme, ranked.idf, count(*) FILTER (WHERE ranked.is_first) OVER so_far AS place,
            coalesce(sum(ranked.document_frequency) FILTER (WHERE ranked.is_first) OVER so_far, 0) AS matches
        FROM (
            SELECT
                known.lexeme, known.idf, known.document_frequency, known.part,
                lag(known.part) OVER (ORDER BY known.document_frequency, known.part) IS DISTINCT FROM known.part AS is_first
            FROM query_terms(collection, query, prefixes) AS known
        ) AS ranked
        WINDOW so_far AS (ORDER BY ranked.document_frequency, ranked.part)
    ) AS term;
    IF lexemes IS NULL THEN
        RETURN;
    END IF;
    SELECT CASE WHEN match_budget IS NULL THEN greatest(4000, total.documents * 15 / 100) ELSE 0 END INTO many
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

        SELECT array_agg(best.item_id), array_agg((-best.distance)::real) INTO ids, scores
        FROM (
            -- By one expression, so that each is weighed once.
            SELECT terms.item_id, terms.weights <#> query_weights AS distance
            FROM item_terms AS terms
            WHERE terms.collection_id + 0 = collection AND (
                terms.lexemes && rarest
                OR (terms.lexemes && has_1 AND terms.lexemes && not_1)
                OR (terms.lexemes && has_2 AND terms.lexemes && not_2)
                OR (terms.lexemes && has_4 AND terms.lexemes && not_4)
                OR (terms.lexemes && has_8 AND terms.lexemes && not_8)
                OR (terms.lexemes && has_16 AND terms.lexemes && not_16)
            )
            ORDER BY distance, terms.item_id
            LIMIT result_limit
        ) AS best;
        EXIT WHEN is_everything OR match_budget IS NOT NULL OR cardinality(ids) >= result_limit;
        few := few * 8;
    END LOOP;
    RETURN QUERY SELECT found.item_id, found.score, query_weights FROM unnest(ids, scores) AS found (item_id, score);
END
$$;
ALTER FUNCTION lexical_search(bigint, text, text[], integer, integer) OWNER TO @definer@;

REVOKE ALL ON FUNCTION lexical_search(bigint, text, text[], integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lexical_search(bigint, text, text[], integer, integer) TO @app@;

-- Whether a text holds the words of a phrase one after the other. The text is read in windows that overlap: a tsvector
-- counts places no further than 16,383. What a window cuts off at its ends is no word of the text. runs: those of scripts
-- without spaces, which are compared as they stand too, because a configuration drops some of their signs.
CREATE OR REPLACE FUNCTION holds_phrase(config regconfig, content text, wanted tsquery, runs text[], overlap integer)
RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT NOT EXISTS (SELECT FROM unnest(runs) AS run WHERE position(run IN given.text) = 0) AND EXISTS (
        SELECT FROM generate_series(0, greatest(length(given.spaced) - 1, 0), 5000) AS place
        WHERE to_tsvector(config, regexp_replace(
            substr(given.spaced, place + 1, 5000 + overlap), CASE WHEN place > 0 THEN '^\S+' ELSE '^' END, ''
        )) @@ wanted
    )
    FROM (SELECT text, spaced_out(text) AS spaced FROM (SELECT usual_width(left(content, 200000))) AS one (text)) AS given
$$;

-- The items whose title or body holds the words of a phrase one after the other, as the collection's text search
-- configuration reads them. Of the index's terms a phrase of one word needs no more, unless they are the neighbours' too;
-- others are compared with the texts.
-- Words that the configuration leaves out ("to be or not to be") are compared as they are spelt, with every item's text.
-- It owns its rights for the index's sake (see lexical_search), so it checks the tenant first.
CREATE OR REPLACE FUNCTION items_containing(collection bigint, phrase text) RETURNS TABLE (item_id text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    config regconfig;
    read text := usual_width(left(phrase, 200000));
    wanted tsquery;
    runs text[];
    overlap integer;
    needed integer[];
    beginning text;
    spelt text;
    is_alone boolean;
BEGIN
    PERFORM check_tenant(collection);
    SELECT
        owner.text_search_config::regconfig,
        owner.neighbours IS NULL AND NOT EXISTS (
            SELECT FROM collection_statistics AS total
            WHERE total.collection_id = collection AND total.windowing_after IS NOT NULL
        )
    INTO config, is_alone
    FROM collections AS owner WHERE owner.collection_id = collection;

    wanted := phraseto_tsquery(config, spaced_out(read));
    runs := ARRAY(SELECT run[1] FROM regexp_matches(read, '([' || unspaced() || ']+)', 'g') AS run);
    overlap := 2 * length(spaced_out(read)) + 200;
    SELECT
        coalesce(array_agg(term.lexeme) FILTER (WHERE NOT term.begins), '{}'), min(term.term) FILTER (WHERE term.begins)
    INTO needed, beginning
    FROM (
        SELECT one.lexeme, one.term, length(one.term) = 1 AND one.term ~ ('[' || unspaced() || ']') AS begins
        FROM analyze_text(collection, config, read, false) AS one
    ) AS term;

    IF needed = '{}' AND beginning IS NULL THEN
        SELECT '\m' || string_agg(word[1], '\W+' ORDER BY place) || '\M' INTO spelt
        FROM regexp_matches(read, '(\w+)', 'g') WITH ORDINALITY AS spelling (word, place);
        RETURN QUERY
        SELECT item.item_id FROM items AS item
        WHERE item.collection_id = collection AND item.status <> 'archived'
            AND (item.title ~* spelt OR item.body ~* spelt);
    ELSIF cardinality(needed) = 1 AND numnode(wanted) = 1 AND is_alone THEN
        RETURN QUERY
        SELECT terms.item_id FROM item_terms AS terms
        WHERE terms.collection_id + 0 = collection AND terms.lexemes @> needed;
    ELSIF needed <> '{}' THEN
        RETURN QUERY
        SELECT terms.item_id
        FROM item_terms AS terms
        JOIN items AS item ON item.collection_id = collection AND item.item_id = terms.item_id
        WHERE terms.collection_id + 0 = collection AND terms.lexemes @> needed AND (
            holds_phrase(config, item.title, wanted, runs, overlap)
            OR holds_phrase(config, item.body, wanted, runs, overlap)
        );
    ELSE
        RETURN QUERY
        SELECT terms.item_id
        FROM item_terms AS terms
        JOIN items AS item ON item.collection_id = collection AND item.item_id = terms.item_id
        WHERE terms.collection_id + 0 = collection
            AND terms.lexemes && ARRAY(
                SELECT known.lexeme FROM term_statistics AS known
                WHERE known.collection_id = collection
                    AND known.term >= beginning COLLATE "C" AND known.term < beginning || U&'\+10FFFF' COLLATE "C"
                UNION
                SELECT fresh.lexeme FROM statistics_changes AS change
                CROSS JOIN LATERAL unnest(change.lexemes, change.terms) AS fresh (lexeme, term)
                WHERE change.collection_id = collection AND starts_with(fresh.term, beginning)
            )
            AND (
                holds_phrase(config, item.title, wanted, runs, overlap)
                OR holds_phrase(config, item.body, wanted, runs, overlap)
            );
    END IF;
END
$$;
ALTER FUNCTION items_containing(bigint, text) OWNER TO @definer@;

REVOKE ALL ON FUNCTION holds_phrase(regconfig, text, tsquery, text[], integer), items_containing(bigint, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION items_containing(bigint, text) TO @app@;
GRANT EXECUTE ON FUNCTION holds_phrase(regconfig, text, tsquery, text[], integer) TO @definer@;
