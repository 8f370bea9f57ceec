-- The tables of collections, of their items, and of the values that items are filtered by.

-- A model with the way in which it embeds texts. Vectors of two spaces are never compared. Each space has a table for
-- its vectors, embeddings_<space_id>.
CREATE TABLE embedding_spaces (
    space_id bigint GENERATED ALWAYS AS IDENTITY,
    provider text NOT NULL,
    model text NOT NULL,
    revision text NOT NULL,
    dimensions integer NOT NULL,
    distance text NOT NULL,
    document_prefix text NOT NULL,
    query_prefix text NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT embedding_spaces_pkey PRIMARY KEY (space_id),
    CONSTRAINT embedding_spaces_identity_key
        UNIQUE (provider, model, revision, dimensions, distance, document_prefix, query_prefix)
);

CREATE TABLE collections (
    collection_id bigint GENERATED ALWAYS AS IDENTITY,
    tenant_id bigint NOT NULL REFERENCES tenants,
    name text COLLATE "C" NOT NULL,
    text_search_config text DEFAULT 'english' NOT NULL,
    space_id bigint REFERENCES embedding_spaces,  -- NULL: the items have no vectors
    profile_version integer DEFAULT 1 NOT NULL,  -- the profile in use
    created_at timestamptz DEFAULT now() NOT NULL,
    neighbours jsonb,  -- the neighbours that an item is indexed with; NULL: each item is indexed alone
    attribute_schema jsonb,  -- the JSON Schema of the items' attributes; NULL: they can be anything
    index_kind text DEFAULT 'auto' NOT NULL,  -- the kind of HNSW index: auto, full or quantised
    parts integer DEFAULT 1 NOT NULL,  -- the number of parts that the HNSW index should have
    CONSTRAINT collections_pkey PRIMARY KEY (collection_id),
    CONSTRAINT collections_tenant_id_name_key UNIQUE (tenant_id, name)
);

-- The profiles of a collection, by version; a version never changes.
CREATE TABLE profiles (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    version integer NOT NULL,
    definition jsonb NOT NULL,
    note text DEFAULT '' NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT profiles_pkey PRIMARY KEY (collection_id, version)
);

CREATE TABLE items (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    item_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    title text NOT NULL,
    body text NOT NULL,
    tags text[] NOT NULL,
    attributes jsonb NOT NULL,
    status text NOT NULL,
    source text NOT NULL,
    occurred_at timestamptz,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    content_hash bytea NOT NULL,
    text_hash bytea NOT NULL,
    -- An active item's facets, for filters on undeclared attributes.
    facets uuid[] GENERATED ALWAYS AS (
        CASE WHEN status = 'archived' THEN '{}'
            ELSE facets_of(collection_id, attributes, tags, kind, status)
        END
    ) STORED,
    CONSTRAINT items_pkey PRIMARY KEY (collection_id, item_id)
) WITH (fillfactor = 90);
-- No plan depends on statistics of facets: under a policy, the planner uses them for leakproof operators only.
ALTER TABLE items ALTER COLUMN facets SET STATISTICS 0;
-- Partial indexes, so that the planner can use them only for filters on exactly that field, and not to read all items
-- of a collection.
-- Read backwards, it gives the latest first, and equal times in the order of their keys.
CREATE INDEX items_collection_id_occurred_at_item_id_idx ON items (collection_id, occurred_at, item_id DESC)
    WHERE occurred_at IS NOT NULL;
CREATE INDEX items_collection_id_kind_item_id_idx ON items (collection_id, kind, item_id)
    WHERE kind <> '' AND status <> 'archived';
CREATE INDEX items_collection_id_source_item_id_idx ON items (collection_id, source, item_id)
    WHERE source <> '' AND status <> 'archived';
-- The last column is descending, so that pages behind which later items are added stay full instead of half empty.
CREATE INDEX items_by_arrival_idx ON items (collection_id, created_at, item_id DESC) WHERE status <> 'archived';
-- Without fastupdate: a filter with thousands of values would compare each value with each pending entry.
CREATE INDEX items_facets_idx ON items USING gin (facets) WITH (fastupdate = off);

-- The attributes of a collection's items, the types of their values, and the type by which they are filterable.
CREATE TABLE collection_attributes (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    name text COLLATE "C" NOT NULL,
    types text[] NOT NULL,
    filterable text,
    is_dropped boolean DEFAULT false NOT NULL,  -- the declaration was removed; the index stays for searches that have read it
    CONSTRAINT collection_attributes_pkey PRIMARY KEY (collection_id, name)
);

-- The values that active items are filtered by. Indexes have their columns in the order that answers a filter by an
-- index-only scan.
CREATE TABLE item_tags (
    collection_id bigint NOT NULL,
    tag text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT item_tags_pkey PRIMARY KEY (collection_id, tag, item_id) INCLUDE (created_at),
    FOREIGN KEY (collection_id, item_id) REFERENCES items ON DELETE CASCADE
);
CREATE INDEX item_tags_collection_id_item_id_idx ON item_tags (collection_id, item_id);

-- A value of a declared attribute, or an element of a list of values, in the column of its declared type.
CREATE TABLE attribute_values (
    collection_id bigint NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    place bigint NOT NULL,  -- the position of the element in its list, from 1
    listed boolean NOT NULL,  -- whether the value is an element of a list
    as_text text COLLATE "C",
    as_number double precision,
    as_time timestamptz,
    CONSTRAINT attribute_values_pkey PRIMARY KEY (collection_id, item_id, name, place),
    FOREIGN KEY (collection_id, item_id) REFERENCES items ON DELETE CASCADE
);
CREATE INDEX attribute_values_by_text_idx ON attribute_values (collection_id, name, as_text, item_id) INCLUDE (listed)
    WHERE as_text IS NOT NULL;
CREATE INDEX attribute_values_by_number_idx ON attribute_values (collection_id, name, as_number, item_id) INCLUDE (listed)
    WHERE as_number IS NOT NULL;
CREATE INDEX attribute_values_by_time_idx ON attribute_values (collection_id, name, as_time, item_id) INCLUDE (listed)
    WHERE as_time IS NOT NULL;

-- The columns of a memory in addition to those of its item, which has its text, project, type and time.
CREATE TABLE memories (
    collection_id bigint NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    happened_at timestamptz NOT NULL,  -- the item's occurred_at, or else its created_at
    base_relevance double precision DEFAULT 1 NOT NULL CHECK (base_relevance BETWEEN 0 AND 1),
    accesses bigint DEFAULT 0 NOT NULL CHECK (accesses >= 0),
    last_accessed_at timestamptz,
    expires_at timestamptz,
    superseded_by text COLLATE "C",  -- the memory that replaced it, which may have been removed
    CONSTRAINT memories_pkey PRIMARY KEY (collection_id, item_id),
    FOREIGN KEY (collection_id, item_id) REFERENCES items ON DELETE CASCADE
) WITH (fillfactor = 80);
-- The most relevant and the most retrieved memories, the latest first among equals, and the latest memories.
CREATE INDEX memories_by_relevance_idx ON memories (collection_id, base_relevance DESC, happened_at DESC, item_id);
CREATE INDEX memories_by_accesses_idx ON memories (collection_id, accesses DESC, happened_at DESC, item_id)
    WHERE accesses > 0;
CREATE INDEX memories_by_time_idx ON memories (collection_id, happened_at DESC, item_id);
CREATE INDEX memories_by_expiry_idx ON memories (collection_id, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX memories_by_successor_idx ON memories (collection_id, superseded_by) WHERE superseded_by IS NOT NULL;

-- The entities that a memory is linked to, of any type that the application has.
CREATE TABLE memory_links (
    collection_id bigint NOT NULL,
    entity_type text COLLATE "C" NOT NULL,
    entity_id text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    happened_at timestamptz NOT NULL,  -- that of the memory
    CONSTRAINT memory_links_pkey PRIMARY KEY (collection_id, item_id, entity_type, entity_id),
    FOREIGN KEY (collection_id, item_id) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX memory_links_by_entity_idx
    ON memory_links (collection_id, entity_type, entity_id, happened_at DESC, item_id);
