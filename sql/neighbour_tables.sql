-- Collections whose items are indexed together with their neighbours in a sequence say so here, as JSON.
ALTER TABLE collections ADD COLUMN neighbours jsonb;
-- How far the walk has come that follows a change of it; NULL: no walk is under way.
ALTER TABLE collection_statistics ADD COLUMN windowing_after text COLLATE "C";

-- Where each active item of such a collection stands, and by its text's hash what its neighbours know of it.
CREATE TABLE item_places (
    collection_id bigint NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    sequence text COLLATE "C" NOT NULL,
    place double precision NOT NULL,
    text_hash bytea NOT NULL,
    CONSTRAINT item_places_pkey PRIMARY KEY (collection_id, item_id),
    CONSTRAINT item_places_collection_id_item_id_fkey FOREIGN KEY (collection_id, item_id)
        REFERENCES items (collection_id, item_id) ON DELETE CASCADE
);
CREATE INDEX item_places_in_order_idx ON item_places (collection_id, sequence, place, item_id);

-- The vectors of such items' own texts; their space's table has them mixed with their neighbours'. An item without a row
-- here is not mixed: its vector there is its own.
CREATE TABLE own_vectors (
    collection_id bigint NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    space_id bigint NOT NULL,
    vector halfvec NOT NULL,
    content_hash bytea NOT NULL,
    CONSTRAINT own_vectors_pkey PRIMARY KEY (collection_id, item_id, space_id),
    CONSTRAINT own_vectors_collection_id_item_id_fkey FOREIGN KEY (collection_id, item_id)
        REFERENCES items (collection_id, item_id) ON DELETE CASCADE,
    CONSTRAINT own_vectors_space_id_fkey FOREIGN KEY (space_id)
        REFERENCES embedding_spaces (space_id) ON DELETE CASCADE
);
ALTER TABLE own_vectors ALTER COLUMN vector SET STORAGE PLAIN;
