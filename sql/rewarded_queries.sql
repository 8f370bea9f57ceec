-- The direction of the queries that an item was rewarded for, as a model learned it: what is near was right before.
CREATE TABLE rewarded_queries (
    collection_id bigint NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    version integer NOT NULL,  -- of the model
    vector halfvec NOT NULL,  -- the mean of the queries, weighted by reward, at unit length
    rewards double precision NOT NULL,  -- sum of weight * reward
    CONSTRAINT rewarded_queries_pkey PRIMARY KEY (collection_id, item_id, version),
    CONSTRAINT rewarded_queries_collection_id_version_fkey FOREIGN KEY (collection_id, version)
        REFERENCES learned_models (collection_id, version) ON DELETE CASCADE
);
