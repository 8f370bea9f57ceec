-- Whether a text holds the words of a phrase one after the other. The text is read in windows that overlap: a tsvector counts
-- places no further than 16,383. What a window cuts off at its ends is no word of the text. runs: those of scripts without
-- spaces, which are compared as they stand too, because a configuration drops some of their signs.
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
    SELECT
        owner.text_search_config::regconfig,
        owner.neighbours IS NULL AND NOT EXISTS (
            SELECT FROM collection_statistics AS total
            WHERE total.collection_id = collection AND total.windowing_after IS NOT NULL
        )
    INTO config, is_alone
    FROM collections AS owner
    WHERE owner.collection_id = collection AND owner.tenant_id = current_tenant();
    IF NOT FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('collection %s is not the current tenant''s', collection);
    END IF;

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
