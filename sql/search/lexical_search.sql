-- Searches of the lexical index: by BM25, and for phrases.

-- The query's side of BM25: the idf of each of its terms that the collection knows. NULL if it knows none.
-- In PL/pgSQL, because it keeps the plan for the connection's next search: planning takes longer than running. It runs
-- with its owner's rights like lexical_search, because the plans of query_terms would be made again for each role.
CREATE OR REPLACE FUNCTION lexical_query(collection bigint, query text, prefixes text[]) RETURNS sparsevec
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM check_tenant(collection);
    RETURN (SELECT terms.weights FROM query_terms(collection, query, prefixes) AS terms);
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
    -- By term of the query, the rarest first: its part, its lexeme, and its part's frequency.
    parts bigint[];
    lexemes integer[];
    frequencies bigint[];
    documents bigint;
    enough integer := coalesce(at_least, result_limit);
    few bigint := greatest(500, 20 * result_limit::bigint);
    many bigint;
    part bigint;
    place integer;
    -- The items that match the part or any rarer one.
    matches bigint;
    -- The number of the parts of which an item needs only one.
    rare integer;
    number integer;
    rarest integer[];
    -- The parts of which the items must have two, by the bits of their number.
    has_1 integer[]; has_2 integer[]; has_4 integer[]; has_8 integer[]; has_16 integer[];
    not_1 integer[]; not_2 integer[]; not_4 integer[]; not_8 integer[]; not_16 integer[];
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

    SELECT terms.* INTO query_weights, parts, lexemes, frequencies, documents
    FROM query_terms(collection, query, prefixes) AS terms;
    IF lexemes IS NULL THEN
        RETURN;
    END IF;
    many := greatest(4000, documents * 15 / 100);

    LOOP
        part := NULL; place := 0; matches := 0; rare := 0; rarest := '{}';
        has_1 := '{}'; has_2 := '{}'; has_4 := '{}'; has_8 := '{}'; has_16 := '{}';
        not_1 := '{}'; not_2 := '{}'; not_4 := '{}'; not_8 := '{}'; not_16 := '{}';
        FOR i IN 1 .. cardinality(lexemes) LOOP
            IF parts[i] IS DISTINCT FROM part THEN
                part := parts[i]; place := place + 1; matches := matches + frequencies[i];
                IF place = 1 OR matches <= few THEN
                    rare := place;
                END IF;
            END IF;
            number := place - rare - 1;
            IF number < 0 THEN
                rarest := rarest || lexemes[i];
            ELSIF number < 32 AND matches <= many THEN
                IF number & 1 > 0 THEN has_1 := has_1 || lexemes[i]; ELSE not_1 := not_1 || lexemes[i]; END IF;
                IF number & 2 > 0 THEN has_2 := has_2 || lexemes[i]; ELSE not_2 := not_2 || lexemes[i]; END IF;
                IF number & 4 > 0 THEN has_4 := has_4 || lexemes[i]; ELSE not_4 := not_4 || lexemes[i]; END IF;
                IF number & 8 > 0 THEN has_8 := has_8 || lexemes[i]; ELSE not_8 := not_8 || lexemes[i]; END IF;
                IF number & 16 > 0 THEN has_16 := has_16 || lexemes[i]; ELSE not_16 := not_16 || lexemes[i]; END IF;
            ELSE
                EXIT;  -- The parts that follow are more frequent.
            END IF;
        END LOOP;

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
        EXIT WHEN rare = place OR cardinality(ids) >= enough;
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
    read text := as_read(config, content);
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
    read text;
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

    read := as_read(config, phrase);
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
            AND (as_read(config, item.title) ~* spelt OR as_read(config, item.body) ~* spelt);
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
