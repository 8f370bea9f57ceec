-- What a memory has beyond an item. What its text, project, type and time are stands in items.
CREATE TABLE memories (
    collection_id bigint NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    happened_at timestamptz NOT NULL,  -- as items has it, or when it was stored
    base_relevance double precision DEFAULT 1 NOT NULL,
    accesses bigint DEFAULT 0 NOT NULL,
    last_accessed_at timestamptz,
    expires_at timestamptz,
    superseded_by text COLLATE "C",  -- the memory that took its place; it may be gone
    CONSTRAINT memories_pkey PRIMARY KEY (collection_id, item_id),
    CONSTRAINT memories_collection_id_item_id_fkey FOREIGN KEY (collection_id, item_id)
        REFERENCES items (collection_id, item_id) ON DELETE CASCADE,
    CONSTRAINT memories_base_relevance_check CHECK (base_relevance >= 0 AND base_relevance <= 1),
    CONSTRAINT memories_accesses_check CHECK (accesses >= 0)
) WITH (fillfactor = 80);
-- The most relevant and the most retrieved ones, the latest first among equals, and the latest.
CREATE INDEX memories_by_relevance_idx ON memories (collection_id, base_relevance DESC, happened_at DESC, item_id);
CREATE INDEX memories_by_accesses_idx ON memories (collection_id, accesses DESC, happened_at DESC, item_id)
    WHERE accesses > 0;
CREATE INDEX memories_by_time_idx ON memories (collection_id, happened_at DESC, item_id);
CREATE INDEX memories_by_expiry_idx ON memories (collection_id, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX memories_by_successor_idx ON memories (collection_id, superseded_by) WHERE superseded_by IS NOT NULL;

-- The entities that a memory is about, of any type that its application has.
CREATE TABLE memory_links (
    collection_id bigint NOT NULL,
    entity_type text COLLATE "C" NOT NULL,
    entity_id text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    happened_at timestamptz NOT NULL,  -- the memory's
    CONSTRAINT memory_links_pkey PRIMARY KEY (collection_id, item_id, entity_type, entity_id),
    CONSTRAINT memory_links_collection_id_item_id_fkey FOREIGN KEY (collection_id, item_id)
        REFERENCES memories (collection_id, item_id) ON DELETE CASCADE
);
CREATE INDEX memory_links_by_entity_idx
    ON memory_links (collection_id, entity_type, entity_id, happened_at DESC, item_id);
