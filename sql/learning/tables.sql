-- The tables of feedback, and of the models learned from it.

-- Rewards for items. Not partitioned by month, because a key must stay unique for ever, so that no retry counts twice.
CREATE TABLE feedback (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    item_id text COLLATE "C" NOT NULL,
    feedback_key uuid NOT NULL,
    subject uuid,  -- the item and the author: a later verdict of the same subject supersedes it; NULL: none does
    retrieval_id uuid,
    retrieved_at timestamptz,  -- the time of the retrieval, which determines the month of its record
    actor text DEFAULT '' NOT NULL,
    session text DEFAULT '' NOT NULL,
    kind text NOT NULL,
    reward double precision NOT NULL,
    weight double precision NOT NULL,  -- 0: it does not count (see discounted)
    given_weight double precision DEFAULT 1 NOT NULL,  -- the weight as given, which counts again after a quarantine
    contexts text[] NOT NULL,  -- the context buckets in which it counts
    note text DEFAULT '' NOT NULL,
    occurred_at timestamptz NOT NULL,  -- the time of the event, from which it decays
    received_at timestamptz DEFAULT now() NOT NULL,
    superseded_at timestamptz,
    discounted text DEFAULT '' NOT NULL,  -- the reason why it does not count; empty: it counts
    key_id text COLLATE "C" DEFAULT '' NOT NULL,  -- the API key of the request; empty: it needed none
    CONSTRAINT feedback_pkey PRIMARY KEY (collection_id, item_id, feedback_key),
    -- One check for both, because each is read anew from its text for every statement that writes.
    CHECK (reward BETWEEN 0 AND 1 AND weight BETWEEN 0 AND 1)
);
-- The actor comes first and then the collection, because other tenants may have actors of the same name, whose day must
-- not be read.
CREATE INDEX feedback_actor_collection_id_received_at_idx ON feedback (actor, collection_id, received_at) WHERE actor <> '';
CREATE INDEX feedback_key_id_collection_id_item_id_received_at_idx
    ON feedback (key_id, collection_id, item_id, received_at) WHERE key_id <> '';
-- The verdicts of a subject that were not superseded: one, except while another is being written.
CREATE INDEX feedback_collection_id_item_id_subject_idx ON feedback (collection_id, item_id, subject)
    WHERE subject IS NOT NULL AND superseded_at IS NULL;
-- No other index begins with the collection alone: while the table is small, all indexes have the same cost, and the
-- plans of writers are kept. For the same reason this index is not a B-tree. BRIN works because rows are stored in
-- order of arrival.
CREATE INDEX feedback_received_at_idx ON feedback USING brin (received_at);
CREATE INDEX feedback_collection_id_retrieval_id_idx ON feedback (collection_id, retrieval_id) WHERE retrieval_id IS NOT NULL;

-- The columns of a stored event that record_feedback needs, with its weight by time. Items are sorted by bytes, as
-- everywhere: writers lock arms in that order, whatever the collation of the database.
CREATE TYPE added_feedback AS (
    row_id tid, collection_id bigint, item_id text COLLATE "C", subject uuid, actor text, reward double precision,
    weight double precision, contexts text[], occurred_at timestamptz, discounted text, decay double precision
);

-- Sufficient statistics of an item in a context bucket, with weights relative to a landmark, so that events add up in
-- any order.
CREATE TABLE arms (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    item_id text COLLATE "C" NOT NULL,
    context text COLLATE "C" NOT NULL,
    successes double precision NOT NULL,  -- sum of weight * reward * 2^((time - landmark) / half-life)
    failures double precision NOT NULL,  -- the same with 1 - reward
    uses bigint DEFAULT 0 NOT NULL,
    raw_successes bigint DEFAULT 0 NOT NULL,  -- events with a reward of at least 0.5
    last_used_at timestamptz,
    CONSTRAINT arms_pkey PRIMARY KEY (collection_id, item_id, context)
) WITH (fillfactor = 70);
-- The items with verdicts.
CREATE INDEX arms_anywhere_idx ON arms (collection_id, item_id) WHERE context = '';

-- The share of the arms from removed events, from which a recount begins.
CREATE TABLE arm_baselines (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    item_id text COLLATE "C" NOT NULL,
    context text COLLATE "C" NOT NULL,
    successes double precision NOT NULL,  -- relative to the landmark of the arm
    failures double precision NOT NULL,
    uses bigint DEFAULT 0 NOT NULL,
    raw_successes bigint DEFAULT 0 NOT NULL,
    last_used_at timestamptz,
    CONSTRAINT arm_baselines_pkey PRIMARY KEY (collection_id, item_id, context)
);

-- The decay of a collection's arms, the daily cap of an actor, and the model in use (0: none).
CREATE TABLE learning_states (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    half_life_days double precision DEFAULT 30 NOT NULL CHECK (half_life_days > 0),
    landmark timestamptz DEFAULT '2026-01-01 00:00:00+00' NOT NULL,
    daily_cap integer DEFAULT 1000 NOT NULL,
    model_version integer DEFAULT 0 NOT NULL,
    model_is_chosen boolean DEFAULT false NOT NULL,  -- whether a caller chose the version: no newer one replaces it
    CONSTRAINT learning_states_pkey PRIMARY KEY (collection_id)
);

-- Actors whose feedback counts in no collection of the tenant.
CREATE TABLE quarantines (
    tenant_id bigint NOT NULL REFERENCES tenants ON DELETE CASCADE,
    actor text COLLATE "C" NOT NULL,
    reason text DEFAULT '' NOT NULL,
    quarantined_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT quarantines_pkey PRIMARY KEY (tenant_id, actor)
);

-- Models of the learned reward: never changed, published or refused with a reason.
CREATE TABLE learned_models (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    version integer NOT NULL,
    kind text NOT NULL,
    definition jsonb NOT NULL,
    metrics jsonb NOT NULL,
    events bigint NOT NULL,
    statistics_at timestamptz NOT NULL,
    is_published boolean NOT NULL,
    reason text NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT learned_models_pkey PRIMARY KEY (collection_id, version)
);

-- The clusters of a collection's embedding space.
CREATE TABLE cluster_centroids (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    space_id bigint NOT NULL REFERENCES embedding_spaces ON DELETE CASCADE,
    cluster integer NOT NULL,
    centroid halfvec NOT NULL,
    items bigint NOT NULL,
    computed_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT cluster_centroids_pkey PRIMARY KEY (collection_id, space_id, cluster)
);

-- The cluster of each item.
CREATE TABLE item_clusters (
    collection_id bigint NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    cluster integer NOT NULL,
    CONSTRAINT item_clusters_pkey PRIMARY KEY (collection_id, item_id),
    FOREIGN KEY (collection_id, item_id) REFERENCES items ON DELETE CASCADE
);

-- The mean direction of the queries that an item was rewarded for, as a model learned it.
CREATE TABLE rewarded_queries (
    collection_id bigint NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    version integer NOT NULL,  -- the version of the model
    vector halfvec NOT NULL,  -- the mean of the queries, weighted by reward, at unit length
    rewards double precision NOT NULL,  -- sum of weight * reward
    CONSTRAINT rewarded_queries_pkey PRIMARY KEY (collection_id, item_id, version),
    FOREIGN KEY (collection_id, version) REFERENCES learned_models ON DELETE CASCADE
);
