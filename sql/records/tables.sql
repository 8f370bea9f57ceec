-- The tables of recorded searches, and of job runs.

-- Recorded searches, one row each, by month. The time is that of the identifier (UUID, version 7), in milliseconds.
-- Values that follow from others are not stored: see retrieval/domain/records/recorded.py. A matrix is a
-- two-dimensional array: by leg (or by measure), then by candidate.
CREATE TABLE retrievals (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    retrieval_id uuid NOT NULL,
    retrieved_at timestamptz NOT NULL,
    actor text DEFAULT '' NOT NULL,  -- who asked, or a pseudonym
    session text DEFAULT '' NOT NULL,
    domain text DEFAULT '' NOT NULL,
    complexity double precision,  -- 0 to 1
    cluster integer,  -- the embedding cluster of the query
    query text NOT NULL,
    vector halfvec,  -- the vector that the caller passed; NULL: the query was embedded
    condition jsonb NOT NULL,  -- the filter; {}: none
    request jsonb NOT NULL,  -- the parameters that differ from their defaults, and the call's own profile
    profile_version integer NOT NULL,  -- 0: the call had its own profile
    model_version integer NOT NULL,  -- 0: no model was used
    policy text NOT NULL,  -- name/version of the exploration policy
    statistics_at timestamptz NOT NULL,  -- the time as of which the arms were read
    seed bigint NOT NULL,
    eligible integer NOT NULL,  -- the number of items among which exploration drew
    hits integer NOT NULL,
    path text NOT NULL,
    notes text[] NOT NULL,
    timings_ms jsonb NOT NULL,  -- by stage
    retrieval_time_ms double precision NOT NULL,
    top_score double precision,
    score_spread double precision,  -- the first score minus the fifth, or minus the last of fewer
    generation_triggered boolean NOT NULL,
    backtrack_count integer NOT NULL,
    legs text[] DEFAULT '{}' NOT NULL,  -- the rankings that were fused
    bests double precision[] DEFAULT '{}' NOT NULL,  -- by leg: the score that a weighted sum scales to 1
    brought integer[] DEFAULT '{}' NOT NULL,  -- by leg: the number of candidates that it found itself
    pool_items text[] NOT NULL,  -- the candidates, the most relevant first
    pool_scores real[],  -- matrix of the scores in the legs; an element is NULL if it is unknown
    pool_scores_exact double precision[],  -- the same, if single precision would round one of them
    pool_ranks integer[],  -- matrix of the ranks in the legs, from 1; 0: unknown
    pool_likeness smallint[],  -- the likeness of each, times 32,767; -1: unknown; NULL: the search did not refine
    measures text[] DEFAULT '{}' NOT NULL,  -- the names of further values of the candidates
    pool_values double precision[],  -- matrix of those values; an element is NULL if it is unknown
    shown_items text[] DEFAULT '{}' NOT NULL,  -- the hits, by rank
    shown_scores double precision[] DEFAULT '{}' NOT NULL,
    shown_slots text[],  -- exploit, explore or swap; NULL: exploit for all
    propensities double precision[],  -- the probability that the item was in the slate; NULL: 1 for all
    rank_propensities double precision[],  -- the probability that the item had its rank; NULL: as propensities
    pulls double precision[],  -- the decayed number of the item's events at that time; NULL: 0 for all
    shown_signals jsonb,  -- a list of each hit's signals; an object: a stack's weights; NULL: they follow from the legs
    CONSTRAINT retrievals_pkey PRIMARY KEY (collection_id, retrieved_at, retrieval_id),
    CONSTRAINT retrievals_shown_check CHECK (cardinality(shown_items) = ALL (ARRAY[
        cardinality(shown_scores), cardinality(shown_slots), cardinality(propensities), cardinality(rank_propensities),
        cardinality(pulls)
    ])),
    CONSTRAINT retrievals_slots_check CHECK (shown_slots <@ ARRAY['exploit', 'explore', 'swap']),
    CONSTRAINT retrievals_propensities_check CHECK (0 < ALL (propensities) AND 1 >= ALL (propensities)),
    CONSTRAINT retrievals_rank_propensities_check CHECK (0 < ALL (rank_propensities) AND 1 >= ALL (rank_propensities))
) PARTITION BY RANGE (retrieved_at);
-- Rows of months that were not made.
CREATE TABLE retrievals_default PARTITION OF retrievals DEFAULT;
ALTER TABLE retrievals_default ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE INDEX retrievals_collection_id_actor_idx ON retrievals (collection_id, actor) WHERE actor <> '';
-- The answers of a session, the newest first.
CREATE INDEX retrievals_by_session_idx ON retrievals (collection_id, session, retrieved_at DESC, retrieval_id DESC)
    WHERE session <> '';

-- The parameter type for a row of retrievals, with the same order of columns, and only types whose OIDs are the same on
-- every server.
CREATE TYPE sent_retrieval AS (
    collection_id bigint, retrieval_id uuid, retrieved_at timestamptz, actor text, session text, domain text,
    complexity double precision, cluster integer, query text, vector real[], condition jsonb, request jsonb,
    profile_version integer, model_version integer, policy text, statistics_at timestamptz, seed bigint,
    eligible integer, hits integer, path text, notes text[], timings_ms jsonb, retrieval_time_ms double precision,
    top_score double precision, score_spread double precision, generation_triggered boolean, backtrack_count integer,
    legs text[], bests double precision[], brought integer[], pool_items text[], pool_scores real[],
    pool_scores_exact double precision[], pool_ranks integer[], pool_likeness smallint[], measures text[],
    pool_values double precision[], shown_items text[], shown_scores double precision[], shown_slots text[],
    propensities double precision[], rank_propensities double precision[], pulls double precision[], shown_signals jsonb
);

-- The hits that searches showed, one a row. A record of a further page also holds the hits of the pages before it; they
-- are left out, because those pages' own records show them as they were drawn. Its signals lack weights and values that
-- follow from the profile, and the weights of a stack other than those of the legs.
CREATE VIEW impressions WITH (security_invoker = true) AS
SELECT
    r.collection_id, r.retrieval_id, shown.item_id COLLATE "C" AS item_id, r.retrieved_at, shown.rank::integer AS rank,
    shown.score,
    coalesce(r.shown_signals -> (shown.rank::integer - 1), (
        SELECT coalesce(jsonb_object_agg(leg.name, jsonb_build_object(
            'rank', r.pool_ranks[leg.number][place.number],
            'raw', coalesce(r.pool_scores_exact[leg.number][place.number], r.pool_scores[leg.number][place.number])
        )), '{}')
        FROM (SELECT array_position(r.pool_items, shown.item_id) AS number OFFSET 0) AS place
        CROSS JOIN unnest(r.legs) WITH ORDINALITY AS leg (name, number)
        WHERE r.pool_ranks[leg.number][place.number] > 0
    ) || coalesce((
        -- Ranked like the legs: the most similar first, then by item id.
        SELECT jsonb_build_object('refining', jsonb_build_object(
            'rank', count(other.item_id) + 1, 'raw', r.pool_likeness[place.number] / 32767::double precision
        ))
        FROM (SELECT array_position(r.pool_items, shown.item_id) AS number OFFSET 0) AS place
        LEFT JOIN LATERAL unnest(r.pool_items, r.pool_likeness) AS other (item_id, likeness)
            ON (-other.likeness, other.item_id COLLATE "C") < (-r.pool_likeness[place.number], shown.item_id COLLATE "C")
        WHERE r.pool_likeness[place.number] >= 0
        GROUP BY place.number
    ), '{}')) AS signals,
    coalesce(shown.slot, 'exploit') AS slot,
    coalesce(shown.propensity, 1) AS propensity,
    coalesce(shown.rank_propensity, shown.propensity, 1) AS rank_propensity,
    coalesce(shown.pulls, 0) AS pulls,
    CASE WHEN shown.slot = 'swap' THEN array_position(r.shown_slots, 'swap') END AS swapped_at
FROM retrievals AS r
CROSS JOIN LATERAL unnest(
    r.shown_items, r.shown_scores, r.shown_slots, r.propensities, r.rank_propensities, r.pulls
) WITH ORDINALITY AS shown (item_id, score, slot, propensity, rank_propensity, pulls, rank)
WHERE shown.rank > coalesce((r.request ->> 'continued')::bigint, 0);

-- The numbers of searches that were not recorded, by day and reason.
CREATE TABLE recording_losses (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    day date NOT NULL,
    reason text NOT NULL,
    retrievals bigint DEFAULT 0 NOT NULL,
    CONSTRAINT recording_losses_pkey PRIMARY KEY (collection_id, day, reason)
);

-- The runs of a collection's jobs, and their outcomes.
CREATE TABLE job_runs (
    collection_id bigint NOT NULL REFERENCES collections ON DELETE CASCADE,
    run_id bigint GENERATED ALWAYS AS IDENTITY,
    job text NOT NULL,
    started_at timestamptz DEFAULT now() NOT NULL,
    finished_at timestamptz,
    outcome text DEFAULT 'running' NOT NULL,
    details jsonb DEFAULT '{}' NOT NULL,
    CONSTRAINT job_runs_pkey PRIMARY KEY (collection_id, run_id)
);
CREATE INDEX job_runs_collection_id_job_run_id_idx ON job_runs (collection_id, job, run_id);
