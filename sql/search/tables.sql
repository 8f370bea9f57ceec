-- The tables of the indexes for searches, and their measurements.

-- The lexical index: each active item's terms, by number.
CREATE TABLE item_terms (
    collection_id bigint NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    weights sparsevec(1000000000) NOT NULL,  -- the document's side of BM25; a ranking reads only this
    lexemes integer[] NOT NULL,
    frequencies smallint[] NOT NULL,
    length integer NOT NULL,
    text_hash bytea,  -- the hash of the item's text; NULL: the item is indexed with its neighbours
    CONSTRAINT item_terms_pkey PRIMARY KEY (collection_id, item_id),
    FOREIGN KEY (collection_id, item_id) REFERENCES items ON DELETE CASCADE
) WITH (toast_tuple_target = 8160);
-- No plan depends on statistics of these columns either (items.facets). To gather them would take most of the time of
-- an ANALYZE of this table.
ALTER TABLE item_terms ALTER COLUMN weights SET STATISTICS 0, ALTER COLUMN lexemes SET STATISTICS 0,
    ALTER COLUMN frequencies SET STATISTICS 0;
-- With fastupdate, because inserting many entries of a word together takes a fifth of the time and of the log. Writers
-- keep the pending list short (index_terms).
CREATE INDEX item_terms_lexemes_idx ON item_terms USING gin (lexemes);

CREATE TABLE term_statistics (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    lexeme integer NOT NULL,
    document_frequency integer NOT NULL,
    term text COLLATE "C",  -- the spelling, for prefixes
    CONSTRAINT term_statistics_pkey PRIMARY KEY (collection_id, lexeme)
) WITH (fillfactor = 70);
CREATE INDEX term_statistics_collection_id_term_idx ON term_statistics (collection_id, term);

-- Changes of a collection's statistics that are not folded yet (fold_statistics), one row for each write, so that
-- writers only insert and do not wait for each other.
CREATE TABLE statistics_changes (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    change_id bigint GENERATED ALWAYS AS IDENTITY,
    items integer NOT NULL,  -- the number of written items
    documents bigint NOT NULL,
    total_length bigint NOT NULL,
    lexemes integer[] NOT NULL,
    differences integer[] NOT NULL,  -- the changes of the lexemes' document frequencies
    terms text[] NOT NULL,  -- the lexemes' spellings; NULL: unknown
    CONSTRAINT statistics_changes_pkey PRIMARY KEY (collection_id, change_id)
) WITH (toast_tuple_target = 8160);

-- A collection's totals, and the positions of the walks that follow a change; NULL: no walk is under way.
CREATE TABLE collection_statistics (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    documents bigint NOT NULL,
    total_length bigint NOT NULL,
    weighed_length real,  -- the average length that the weights use
    weighing_after text COLLATE "C",
    windowing_after text COLLATE "C",
    CONSTRAINT collection_statistics_pkey PRIMARY KEY (collection_id)
) WITH (fillfactor = 50);

-- The place of each active item in a collection with neighbours, and the hash of the text with which its neighbours are
-- indexed.
CREATE TABLE item_places (
    collection_id bigint NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    sequence text COLLATE "C" NOT NULL,
    place double precision NOT NULL,
    text_hash bytea NOT NULL,
    CONSTRAINT item_places_pkey PRIMARY KEY (collection_id, item_id),
    FOREIGN KEY (collection_id, item_id) REFERENCES items ON DELETE CASCADE
);
CREATE INDEX item_places_in_order_idx ON item_places (collection_id, sequence, place, item_id);

-- The vectors of such items' own texts; the space's table has them mixed with their neighbours'. An item without a row
-- here is not mixed: the space's table has its own vector.
CREATE TABLE own_vectors (
    collection_id bigint NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    space_id bigint NOT NULL REFERENCES embedding_spaces ON DELETE CASCADE,
    vector halfvec NOT NULL,
    content_hash bytea NOT NULL,
    CONSTRAINT own_vectors_pkey PRIMARY KEY (collection_id, item_id, space_id),
    FOREIGN KEY (collection_id, item_id) REFERENCES items ON DELETE CASCADE
);
ALTER TABLE own_vectors ALTER COLUMN vector SET STORAGE PLAIN;

-- The change of a collection from one embedding space to another. Besides the space in use, writers also maintain
-- kept_id; changing that requires the writers' lock, held exclusively.
CREATE TABLE reembeddings (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    former_id bigint NOT NULL REFERENCES embedding_spaces,
    target_id bigint NOT NULL REFERENCES embedding_spaces,
    state text NOT NULL,
    kept_id bigint GENERATED ALWAYS AS (
        CASE state WHEN 'filling' THEN target_id WHEN 'ready' THEN target_id WHEN 'switched' THEN former_id END
    ) STORED,
    is_paused boolean DEFAULT false NOT NULL,
    switching text NOT NULL,  -- after filling: 'when asked', 'by itself' if the comparison is good, or 'now'
    batch_texts integer NOT NULL,
    tokens_a_minute bigint,  -- NULL: unlimited
    tokens_a_day bigint,  -- NULL: unlimited
    keep_seconds bigint NOT NULL,  -- the time for which the former space is kept after the switch
    spent_on date,  -- the day (UTC) of spent_tokens
    spent_tokens bigint DEFAULT 0 NOT NULL,  -- counted before the call of the embedder, so that a crash loses none
    paid_tokens bigint DEFAULT 0 NOT NULL,
    paid_texts bigint DEFAULT 0 NOT NULL,
    comparison jsonb,
    note text DEFAULT '' NOT NULL,  -- the reason why it does not proceed; empty: it does
    started_at timestamptz DEFAULT now() NOT NULL,
    switched_at timestamptz,
    CONSTRAINT reembeddings_pkey PRIMARY KEY (collection_id),
    CONSTRAINT reembeddings_switching_check CHECK (switching IN ('when asked', 'by itself', 'now')),
    CONSTRAINT reembeddings_state_check CHECK (state IN ('filling', 'ready', 'switched', 'removing', 'done'))
);

-- Vectors of texts that were embedded before, by the hash of the text.
CREATE TABLE embedding_cache (
    tenant_id bigint NOT NULL REFERENCES tenants ON DELETE CASCADE,
    space_id bigint NOT NULL REFERENCES embedding_spaces ON DELETE CASCADE,
    text_hash bytea NOT NULL,
    vector halfvec NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT embedding_cache_pkey PRIMARY KEY (tenant_id, space_id, text_hash)
);

-- A language model's rewrites of a query, stored for its tenant until they expire.
CREATE TABLE query_rewrites (
    tenant_id bigint NOT NULL REFERENCES tenants ON DELETE CASCADE,
    model text COLLATE "C" NOT NULL,
    query_hash bytea NOT NULL,  -- the hash of the query and the instructions
    rewrites text[] NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT query_rewrites_pkey PRIMARY KEY (tenant_id, model, query_hash)
);

-- The measurements of each HNSW index that searches use: an index of another kind, or with other parts, is built beside
-- it, and replaces it together with its measurements.
CREATE TABLE ann_indexes (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    space_id bigint NOT NULL REFERENCES embedding_spaces ON DELETE CASCADE,
    rows bigint NOT NULL,
    index_bytes bigint NOT NULL,
    effort_10 integer NOT NULL,
    effort_100 integer NOT NULL,
    effort_200 integer NOT NULL,
    recall real NOT NULL,
    exact_row_us real NOT NULL,
    walk_row_us real NOT NULL,
    is_quantised boolean NOT NULL,
    parts integer NOT NULL,  -- the number of indexes, each of the items whose keys have the same hash
    common_facets jsonb DEFAULT '{}' NOT NULL,  -- by facet: the share of the items that have it, at least 0.05
    measured_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT ann_indexes_pkey PRIMARY KEY (collection_id, space_id)
);

-- Samples of live queries that an HNSW index answered, for measurements.
CREATE TABLE query_samples (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    sample_id bigint GENERATED ALWAYS AS IDENTITY,
    space_id bigint NOT NULL REFERENCES embedding_spaces ON DELETE CASCADE,
    vector halfvec NOT NULL,
    condition jsonb,  -- the filter; NULL: none
    result_limit integer NOT NULL,
    sampled_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT query_samples_pkey PRIMARY KEY (collection_id, sample_id)
);

-- The recall of an index, by the number of items that match the filters.
CREATE TABLE recall_measurements (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    space_id bigint NOT NULL REFERENCES embedding_spaces ON DELETE CASCADE,
    measured_at timestamptz DEFAULT now() NOT NULL,
    bucket text NOT NULL,
    samples integer NOT NULL,
    recall real NOT NULL,
    short_pages integer NOT NULL,
    effort integer NOT NULL,
    CONSTRAINT recall_measurements_pkey PRIMARY KEY (collection_id, space_id, measured_at, bucket)
);
