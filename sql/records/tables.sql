-- The tables of recorded searches, and of jobs that ran.

-- Searches as they were answered, by month. The time is that of the identifier (UUID, version 7), to the millisecond.
CREATE TABLE retrievals (
    collection_id bigint NOT NULL,
    retrieval_id uuid NOT NULL,
    retrieved_at timestamptz NOT NULL,
    actor text DEFAULT '' NOT NULL,  -- who asked; a pseudonym once it was made one
    session text DEFAULT '' NOT NULL,
    domain text DEFAULT '' NOT NULL,
    complexity double precision,  -- 0 to 1
    cluster integer,  -- the embedding cluster of the query
    query text NOT NULL,
    vector halfvec,  -- the vector that the caller gave; NULL: the words were embedded
    condition jsonb NOT NULL,  -- the filter; {}: none
    request jsonb NOT NULL,  -- limit, grouping, prefixes, and the profile where the call brought its own
    profile_version integer NOT NULL,  -- 0: the call's own
    model_version integer NOT NULL,  -- 0: nothing learned counted
    policy text NOT NULL,  -- name/version of the exploration policy
    statistics_at timestamptz NOT NULL,  -- the moment of the arms that were read
    seed bigint NOT NULL,
    eligible integer NOT NULL,  -- items among which exploration drew
    hits integer NOT NULL,
    path text NOT NULL,
    notes text[] NOT NULL,
    timings_ms jsonb NOT NULL,
    retrieval_time_ms double precision NOT NULL,
    top_score double precision,
    score_spread double precision,  -- first score minus fifth (or last) one
    generation_triggered boolean NOT NULL,
    backtrack_count integer NOT NULL,
    pool_items text[] NOT NULL,  -- candidates, best first
    pool_signals jsonb NOT NULL,  -- arrays in the order of pool_items, by name
    CONSTRAINT retrievals_pkey PRIMARY KEY (collection_id, retrieval_id, retrieved_at),
    CONSTRAINT retrievals_collection_id_fkey FOREIGN KEY (collection_id) REFERENCES collections (collection_id) ON DELETE CASCADE
) PARTITION BY RANGE (retrieved_at);
-- What falls into no month that was made.
CREATE TABLE retrievals_default PARTITION OF retrievals DEFAULT;
ALTER TABLE retrievals_default ENABLE ROW LEVEL SECURITY;
ALTER TABLE retrievals_default FORCE ROW LEVEL SECURITY;
CREATE INDEX retrievals_collection_id_retrieved_at_idx ON retrievals (collection_id, retrieved_at);
CREATE INDEX retrievals_collection_id_actor_idx ON retrievals (collection_id, actor) WHERE actor <> '';
-- What a session was answered, the newest first.
CREATE INDEX retrievals_by_session_idx ON retrievals (collection_id, session, retrieved_at DESC, retrieval_id DESC)
    WHERE session <> '';

-- The hits that a search showed, each with why it stood there and how probable that was.
CREATE TABLE impressions (
    collection_id bigint NOT NULL,
    retrieval_id uuid NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    retrieved_at timestamptz NOT NULL,
    rank integer NOT NULL,
    score double precision NOT NULL,
    signals jsonb NOT NULL,  -- what made the score, by name: rank, raw, weight, value
    slot text NOT NULL,
    propensity double precision NOT NULL,  -- the probability that the item was in the slate
    rank_propensity double precision NOT NULL,  -- the probability that it stood at this rank
    pulls double precision NOT NULL,  -- decayed number of events known of the item when it was shown
    CONSTRAINT impressions_pkey PRIMARY KEY (collection_id, retrieval_id, item_id, retrieved_at),
    CONSTRAINT impressions_slot_check CHECK (slot IN ('exploit', 'explore', 'swap')),
    CONSTRAINT impressions_propensity_check CHECK (propensity > 0 AND propensity <= 1),
    CONSTRAINT impressions_rank_propensity_check CHECK (rank_propensity > 0 AND rank_propensity <= propensity),
    CONSTRAINT impressions_collection_id_fkey FOREIGN KEY (collection_id) REFERENCES collections (collection_id) ON DELETE CASCADE
) PARTITION BY RANGE (retrieved_at);
-- What falls into no month that was made.
CREATE TABLE impressions_default PARTITION OF impressions DEFAULT;
ALTER TABLE impressions_default ENABLE ROW LEVEL SECURITY;
ALTER TABLE impressions_default FORCE ROW LEVEL SECURITY;
CREATE INDEX impressions_collection_id_item_id_retrieved_at_idx ON impressions (collection_id, item_id, retrieved_at);
CREATE INDEX impressions_collection_id_retrieved_at_idx ON impressions (collection_id, retrieved_at);

-- Searches that were not recorded, and why, by day.
CREATE TABLE recording_losses (
    collection_id bigint NOT NULL,
    day date NOT NULL,
    reason text NOT NULL,
    retrievals bigint DEFAULT 0 NOT NULL,
    CONSTRAINT recording_losses_pkey PRIMARY KEY (collection_id, day, reason),
    CONSTRAINT recording_losses_collection_id_fkey FOREIGN KEY (collection_id) REFERENCES collections (collection_id) ON DELETE CASCADE
);

-- Jobs of a collection that ran, and what became of them.
CREATE TABLE job_runs (
    collection_id bigint NOT NULL,
    run_id bigint GENERATED ALWAYS AS IDENTITY,
    job text NOT NULL,
    started_at timestamptz DEFAULT now() NOT NULL,
    finished_at timestamptz,
    outcome text DEFAULT 'running' NOT NULL,
    details jsonb DEFAULT '{}' NOT NULL,
    CONSTRAINT job_runs_pkey PRIMARY KEY (collection_id, run_id),
    CONSTRAINT job_runs_collection_id_fkey FOREIGN KEY (collection_id) REFERENCES collections (collection_id)
        ON DELETE CASCADE
);
CREATE INDEX job_runs_collection_id_job_run_id_idx ON job_runs (collection_id, job, run_id);
