-- Searches of the lexical index: by BM25, and for phrases.

-- The query's side of BM25: the idf of each of its terms that the collection knows. NULL if it knows none.
-- In PL/pgSQL, because it keeps the plan for the connection's next search: planning takes longer than running. It runs
-- with its owner's rights like lexical_search, because the plans of query_terms would be made again for each role.
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

-- The items of a collection that rank best for a query by BM25, best first, from the GIN index.
-- Ranking an item takes ten times as long as finding it in the index, so the index preselects: items with one of the
-- query's rarest parts (those that match 500 items together, or twenty times the wanted ones; at least one part), and
-- items with two of the next parts (up to 4,000 matches, or 15 % of a larger collection). Those are ranked by all
-- parts. Two part numbers below 32 differ in at least one of five bits, so an item has two of the parts if, for some
-- bit, it has a part with that bit set and a part with it clear. If fewer than at_least items are found (NULL: than
-- result_limit), the search is repeated with more, until it has read every item with one of the words.
-- If pg_textsearch serves the collection, and the setting retrieval.textsearch is not off, textsearch_search finds the
-- items instead.
-- Lexemes have numbers by collection, so the index finds the collection's items; adding 0 to collection_id keeps the
-- planner from also reading the collection's whole primary key, and the collection is checked because numbers of two
-- collections can collide. The plan is the same for all arrays, and kept. weights: the query's side, the same in each
-- row, for callers that weigh further items; NULL if the extension found them. It runs with its owner's rights, because
-- `&&` is not leakproof, so that a policy would exclude the index; so it checks the tenant first.
CREATE OR REPLACE FUNCTION lexical_search(
    collection bigint, query text, prefixes text[], result_limit integer, at_least integer DEFAULT NULL
)
RETURNS TABLE (item_id text, score real, weights sparsevec)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    query_weights sparsevec;
    lexemes integer[];
    places bigint[];
    matches bigint[];
    enough integer := coalesce(at_least, result_limit);
    few bigint := greatest(500, 20 * result_limit::bigint);
    many bigint;
    rarest integer[];
    -- The parts of which the items must have two, by the bits of their number.
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

    -- The parts' places, and the number of items that match a part or any rarer one.
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
    SELECT greatest(4000, total.documents * 15 / 100) INTO many
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
            -- In one expression, so that each item is weighed once.
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
            ORDER BY distance, terms.item_id LIMIT result_limit
        ) AS best;
        EXIT WHEN is_everything OR cardinality(ids) >= enough;
        few := few * 8;
    END LOOP;
    RETURN QUERY SELECT found.item_id, found.score, query_weights FROM unnest(ids, scores) AS found (item_id, score);
END
$$;

-- Whether a text contains the words of a phrase in sequence. The text is read in overlapping windows, because a
-- tsvector counts positions only up to 16,383; words cut at a window's ends are ignored. runs: the runs of scripts
-- without spaces in the phrase, which are also compared as texts, because a configuration drops some of their
-- characters. In PL/pgSQL, with expressions and without a query, which would be planned again for each text on a cluster.
CREATE OR REPLACE FUNCTION holds_phrase(config regconfig, content text, wanted tsquery, runs text[], overlap integer)
RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    read text := usual_form(left(content, 200000));
    spaced text := spaced_out(read);
    place integer := 0;
    run text;
BEGIN
    FOREACH run IN ARRAY runs LOOP
        IF position(run IN read) = 0 THEN
            RETURN false;
        END IF;
    END LOOP;
    LOOP
        IF to_tsvector(config, regexp_replace(
            substr(spaced, place + 1, 5000 + overlap), CASE WHEN place > 0 THEN '^\S+' ELSE '^' END, ''
        )) @@ wanted THEN
            RETURN true;
        END IF;
        place := place + 5000;
        EXIT WHEN place >= coalesce(length(spaced), 0);
    END LOOP;
    RETURN false;
END
$$;

-- The items whose title or body contains the words of a phrase in sequence, by the collection's text search
-- configuration. For a phrase of one word the index is enough, unless it also has neighbours' words; other candidates
-- are compared with the texts. Words that the configuration drops ("to be or not to be") are compared by spelling, with
-- every item's text. OFFSET 0, because a join of a collection that the planner's statistics do not know yet compares each
-- candidate with every item.
-- It runs with its owner's rights to use the index (see lexical_search), so it checks the tenant first.
CREATE OR REPLACE FUNCTION items_containing(collection bigint, phrase text) RETURNS TABLE (item_id text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    config regconfig;
    read text := usual_form(left(phrase, 200000));
    wanted tsquery;
    runs text[];
    overlap integer;
    needed integer[];
    beginning text;
    spelt text;
BEGIN
    PERFORM check_tenant(collection);
    SELECT owner.text_search_config::regconfig INTO config
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
            AND (usual_form(item.title) ~* spelt OR usual_form(item.body) ~* spelt);
    ELSIF cardinality(needed) = 1 AND numnode(wanted) = 1 AND NOT are_windowed(collection) THEN
        RETURN QUERY
        SELECT terms.item_id FROM item_terms AS terms
        WHERE terms.collection_id + 0 = collection AND terms.lexemes @> needed;
    ELSIF needed <> '{}' THEN
        RETURN QUERY
        SELECT terms.item_id FROM item_terms AS terms
        WHERE terms.collection_id + 0 = collection AND terms.lexemes @> needed AND EXISTS (
            SELECT FROM items AS item
            WHERE item.collection_id = collection AND item.item_id = terms.item_id AND (
                holds_phrase(config, item.title, wanted, runs, overlap)
                OR holds_phrase(config, item.body, wanted, runs, overlap)
            )
            OFFSET 0
        );
    ELSE
        RETURN QUERY
        SELECT terms.item_id FROM item_terms AS terms
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
            AND EXISTS (
                SELECT FROM items AS item
                WHERE item.collection_id = collection AND item.item_id = terms.item_id AND (
                    holds_phrase(config, item.title, wanted, runs, overlap)
                    OR holds_phrase(config, item.body, wanted, runs, overlap)
                )
                OFFSET 0
            );
    END IF;
END
$$;

ALTER FUNCTION lexical_query OWNER TO @definer@;
ALTER FUNCTION lexical_search OWNER TO @definer@;
ALTER FUNCTION items_containing OWNER TO @definer@;
GRANT EXECUTE ON FUNCTION lexical_query, lexical_search, items_containing TO @app@;
GRANT EXECUTE ON FUNCTION holds_phrase TO @definer@;
