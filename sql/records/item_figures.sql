-- Figures about items, and the basis of all figures.

-- The bounds of Wilson's 95 % interval of a rate, from raw counts, reliable for few trials; NULL: no trial. E. B. Wilson,
-- Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
CREATE FUNCTION wilson_low(successes bigint, trials bigint) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN trials > 0 THEN greatest(0, (successes + 1.920729410347062 - 1.959963984540054 * sqrt(
    successes * (trials - successes) / trials::double precision + 0.960364705173531)) / (trials + 3.841458820694124)) END;

CREATE FUNCTION wilson_high(successes bigint, trials bigint) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN trials > 0 THEN least(1, (successes + 1.920729410347062 + 1.959963984540054 * sqrt(
    successes * (trials - successes) / trials::double precision + 0.960364705173531)) / (trials + 3.841458820694124)) END;

-- The standard error of a mean, from the number of values, their sum and the sum of their squares.
CREATE FUNCTION standard_error(number bigint, total double precision, squares double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN number > 1 THEN
    sqrt(greatest(0, squares - total * total / number) / (number - 1) / number) END;

-- The GROUP BY contains the collection and the time, so that conditions on them reach the tables below.
CREATE VIEW analytics_rated WITH (security_invoker = true) AS
SELECT
    c.name AS collection, m.retrieved_at, m.retrieval_id, m.item_id, m.rank, m.slot, m.propensity, m.rank_propensity,
    sum(f.weight * f.reward) / sum(f.weight) AS reward, sum(f.weight) AS weight, count(*) AS verdicts,
    m.collection_id, m.swapped_at
FROM collections AS c
JOIN impressions AS m ON m.collection_id = c.collection_id
JOIN feedback AS f
    ON f.collection_id = m.collection_id AND f.retrieval_id = m.retrieval_id AND f.item_id = m.item_id
WHERE f.superseded_at IS NULL AND f.weight > 0
GROUP BY c.name, m.collection_id, m.retrieval_id, m.item_id, m.retrieved_at, m.rank, m.slot, m.propensity,
    m.rank_propensity, m.swapped_at;
COMMENT ON VIEW analytics_rated IS 'Impressions with feedback that counts, each with its reward.';
COMMENT ON COLUMN analytics_rated.slot IS 'exploit, explore or swap.';
COMMENT ON COLUMN analytics_rated.propensity IS 'The probability that the item was shown.';
COMMENT ON COLUMN analytics_rated.rank_propensity IS 'The probability that the item was shown at this rank.';
COMMENT ON COLUMN analytics_rated.reward IS 'The mean of the verdicts that count, by their weights.';
COMMENT ON COLUMN analytics_rated.weight IS 'The sum of the weights of the verdicts that count.';
COMMENT ON COLUMN analytics_rated.verdicts IS 'The number of verdicts that count: neither superseded nor discounted.';
COMMENT ON COLUMN analytics_rated.collection_id IS 'The collection''s key in the tables.';
COMMENT ON COLUMN analytics_rated.swapped_at IS
    'The better of the two ranks whose items changed places; NULL: the item is in no swap.';
GRANT SELECT ON analytics_rated TO @app@, @analyst@;

-- Lists are views; sums over a period are functions of the period, so that it reaches the indexes and the months.
CREATE VIEW analytics_usage WITH (security_invoker = true) AS
SELECT
    c.name AS collection, a.item_id, i.title, a.context, a.uses, a.raw_successes AS successes,
    a.raw_successes / nullif(a.uses, 0)::double precision AS success_rate,
    wilson_low(a.raw_successes, a.uses) AS success_low,
    wilson_high(a.raw_successes, a.uses) AS success_high,
    (counted.successes + counted.failures) * c.weight_left AS pulls,
    counted.successes / nullif(counted.successes + counted.failures, 0) AS reward,
    a.last_used_at
FROM (
    SELECT one.collection_id, one.name, decay_weight(s.landmark, now(), s.half_life_days) AS weight_left
    FROM collections AS one CROSS JOIN LATERAL learning_state(one.collection_id) AS s
) AS c
JOIN arms AS a ON a.collection_id = c.collection_id
-- greatest() removes the rounding error of values that were added and subtracted.
CROSS JOIN LATERAL (SELECT greatest(a.successes, 0), greatest(a.failures, 0)) AS counted (successes, failures)
LEFT JOIN items AS i ON i.collection_id = a.collection_id AND i.item_id = a.item_id;
COMMENT ON VIEW analytics_usage IS 'Uses and rewards of each item in each context, over all time.';
COMMENT ON COLUMN analytics_usage.title IS 'The item''s title; NULL: the item is no longer stored.';
COMMENT ON COLUMN analytics_usage.context IS 'The context bucket; empty: all contexts.';
COMMENT ON COLUMN analytics_usage.uses IS 'The number of feedback events that count.';
COMMENT ON COLUMN analytics_usage.successes IS 'The uses with a reward of at least 0.5.';
COMMENT ON COLUMN analytics_usage.success_rate IS 'successes / uses, of raw counts, without decay.';
COMMENT ON COLUMN analytics_usage.success_low IS 'The lower bound of Wilson''s 95 % interval of the success rate.';
COMMENT ON COLUMN analytics_usage.success_high IS 'The upper bound of that interval.';
COMMENT ON COLUMN analytics_usage.pulls IS 'The decayed number of uses, as of now.';
COMMENT ON COLUMN analytics_usage.reward IS 'The decayed mean reward.';

CREATE TYPE analytics_usage_by_day_row AS (
    collection text, day date, item_id text, title text, context text, uses bigint, successes bigint,
    success_rate double precision, success_low double precision, success_high double precision
);
COMMENT ON COLUMN analytics_usage_by_day_row.day IS 'The day in UTC; a day without feedback on the item has no row.';
COMMENT ON COLUMN analytics_usage_by_day_row.context IS 'The context bucket; empty: all contexts.';
COMMENT ON COLUMN analytics_usage_by_day_row.uses IS
    'The feedback events that count, received in the period up to the end of that day.';
COMMENT ON COLUMN analytics_usage_by_day_row.successes IS 'The uses with a reward of at least 0.5.';
COMMENT ON COLUMN analytics_usage_by_day_row.success_low IS
    'The lower bound of Wilson''s 95 % interval of the success rate.';
COMMENT ON COLUMN analytics_usage_by_day_row.success_high IS 'The upper bound of that interval.';

CREATE FUNCTION analytics_usage_by_day(
    collection text DEFAULT NULL, since timestamptz DEFAULT now() - interval '28 days',
    until timestamptz DEFAULT 'infinity'
) RETURNS SETOF analytics_usage_by_day_row LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT summed.name, summed.day, summed.item_id, i.title, summed.context, summed.uses, summed.successes,
        summed.successes / summed.uses::double precision, wilson_low(summed.successes, summed.uses),
        wilson_high(summed.successes, summed.uses)
    FROM (
        SELECT counted.name, counted.collection_id, counted.day, counted.item_id, counted.context,
            (sum(counted.uses) OVER so_far)::bigint AS uses, (sum(counted.successes) OVER so_far)::bigint AS successes
        FROM (
            SELECT c.name, f.collection_id, (f.received_at AT TIME ZONE 'UTC')::date AS day, f.item_id, bucket.context,
                count(*) AS uses, count(*) FILTER (WHERE f.reward >= 0.5) AS successes
            FROM collections AS c
            JOIN feedback AS f ON f.collection_id = c.collection_id
            CROSS JOIN LATERAL unnest(f.contexts) AS bucket (context)
            WHERE f.received_at >= since AND f.received_at < until AND f.superseded_at IS NULL AND f.weight > 0
                AND (analytics_usage_by_day.collection IS NULL OR c.name = analytics_usage_by_day.collection)
            GROUP BY c.name, f.collection_id, 3, f.item_id, bucket.context
        ) AS counted
        WINDOW so_far AS (PARTITION BY counted.collection_id, counted.item_id, counted.context ORDER BY counted.day)
    ) AS summed
    LEFT JOIN items AS i ON i.collection_id = summed.collection_id AND i.item_id = summed.item_id;
END;
COMMENT ON FUNCTION analytics_usage_by_day(text, timestamptz, timestamptz) IS
    'Uses of each item in each context, from the beginning of a period up to each of its days.';

CREATE TYPE analytics_contexts_row AS (
    collection text, context text, items bigint, uses bigint, reward double precision, reward_se double precision,
    last_received_at timestamptz
);
COMMENT ON COLUMN analytics_contexts_row.context IS 'The context bucket; empty: all feedback.';
COMMENT ON COLUMN analytics_contexts_row.items IS 'The number of different items with feedback.';
COMMENT ON COLUMN analytics_contexts_row.uses IS 'The feedback events that count, received in the period.';
COMMENT ON COLUMN analytics_contexts_row.reward IS 'The mean reward of that feedback.';
COMMENT ON COLUMN analytics_contexts_row.reward_se IS
    'The standard error of the reward; NULL for fewer than two events.';

CREATE FUNCTION analytics_contexts(
    collection text DEFAULT NULL, since timestamptz DEFAULT now() - interval '28 days',
    until timestamptz DEFAULT 'infinity'
) RETURNS SETOF analytics_contexts_row LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT c.name, bucket.context, count(DISTINCT f.item_id), count(*), avg(f.reward),
        stddev_samp(f.reward) / sqrt(count(*)), max(f.received_at)
    FROM collections AS c
    JOIN feedback AS f ON f.collection_id = c.collection_id
    CROSS JOIN LATERAL unnest(f.contexts) AS bucket (context)
    WHERE f.received_at >= since AND f.received_at < until AND f.superseded_at IS NULL AND f.weight > 0
        AND (analytics_contexts.collection IS NULL OR c.name = analytics_contexts.collection)
    GROUP BY c.name, bucket.context;
END;
COMMENT ON FUNCTION analytics_contexts(text, timestamptz, timestamptz) IS 'Feedback and rewards of a period, by context.';

-- In a function, because a cluster can compute it only for one collection after the other. The parameter of other
-- figures, collection, is a column here.
CREATE FUNCTION analytics_unused_items_rows() RETURNS TABLE (
    collection text, item_id text, title text, kind text, created_at timestamptz, state text, last_shown_at timestamptz
) LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT
        c.name, i.item_id, i.title, i.kind, i.created_at,
        CASE WHEN i.last_shown_at IS NULL THEN 'never shown' ELSE 'never used' END, i.last_shown_at
    FROM collections AS c
    CROSS JOIN LATERAL (
        SELECT one.item_id, one.title, one.kind, one.created_at, shown.last_shown_at
        FROM items AS one
        -- All impressions are read once, because no index finds the records that showed an item.
        LEFT JOIN (
            SELECT hit.item_id, max(hit.retrieved_at) AS last_shown_at
            FROM (
                SELECT unnest(r.shown_items) AS item_id, r.retrieved_at FROM retrievals AS r
                WHERE r.collection_id = c.collection_id
            ) AS hit
            GROUP BY hit.item_id
        ) AS shown ON shown.item_id = one.item_id
        WHERE one.collection_id = c.collection_id AND one.status <> 'archived'
        OFFSET 0
    ) AS i
    WHERE NOT EXISTS (
        SELECT FROM arms AS a
        WHERE a.collection_id = c.collection_id AND a.item_id = i.item_id AND a.context = '' AND a.uses > 0
    );
END;
CREATE VIEW analytics_unused_items WITH (security_invoker = true) AS
SELECT
    one.collection COLLATE "C" AS collection, one.item_id COLLATE "C" AS item_id, one.title, one.kind, one.created_at,
    one.state, one.last_shown_at
FROM analytics_unused_items_rows() AS one;
COMMENT ON VIEW analytics_unused_items IS
    'Stored items without feedback that counts: never shown, or shown and never used.';
COMMENT ON COLUMN analytics_unused_items.created_at IS 'The time when the item was first stored.';
COMMENT ON COLUMN analytics_unused_items.state IS 'never shown, or never used: shown, without feedback that counts.';
COMMENT ON COLUMN analytics_unused_items.last_shown_at IS
    'The last time in the recorded searches that are still stored.';

CREATE TYPE analytics_shown_items_row AS (
    collection text, item_id text, title text, shown bigint, explored bigint, mean_rank double precision, rated bigint,
    reward double precision, reward_se double precision, last_shown_at timestamptz
);
COMMENT ON COLUMN analytics_shown_items_row.shown IS 'Impressions in the period.';
COMMENT ON COLUMN analytics_shown_items_row.explored IS 'The impressions in an explore slot.';
COMMENT ON COLUMN analytics_shown_items_row.rated IS 'The impressions with feedback that counts.';
COMMENT ON COLUMN analytics_shown_items_row.reward IS 'The mean reward of the rated impressions.';
COMMENT ON COLUMN analytics_shown_items_row.reward_se IS
    'The standard error of the reward; NULL for fewer than two events.';

CREATE FUNCTION analytics_shown_items(
    collection text DEFAULT NULL, since timestamptz DEFAULT now() - interval '28 days',
    until timestamptz DEFAULT 'infinity'
) RETURNS SETOF analytics_shown_items_row LANGUAGE sql STABLE
BEGIN ATOMIC
    -- Both counts are aggregated side by side, because the planner could not estimate the size of their join.
    SELECT summed.name, summed.item_id, i.title, summed.shown, summed.explored,
        summed.ranks / nullif(summed.shown, 0)::double precision, summed.rated,
        summed.total / nullif(summed.rated, 0), standard_error(summed.rated, summed.total, summed.squares),
        summed.last_shown_at
    FROM (
        SELECT one.name, one.collection_id, one.item_id, sum(one.shown)::bigint AS shown,
            sum(one.explored)::bigint AS explored, sum(one.ranks) AS ranks, sum(one.rated)::bigint AS rated,
            sum(one.total) AS total, sum(one.squares) AS squares, max(one.last_shown_at) AS last_shown_at
        FROM (
            SELECT c.name, m.collection_id, m.item_id, count(*) AS shown,
                count(*) FILTER (WHERE m.slot = 'explore') AS explored, sum(m.rank) AS ranks, 0 AS rated,
                0::double precision AS total, 0::double precision AS squares, max(m.retrieved_at) AS last_shown_at
            FROM collections AS c
            JOIN impressions AS m ON m.collection_id = c.collection_id
            WHERE m.retrieved_at >= since AND m.retrieved_at < until
                AND (analytics_shown_items.collection IS NULL OR c.name = analytics_shown_items.collection)
            GROUP BY c.name, m.collection_id, m.item_id
            UNION ALL
            SELECT r.collection, r.collection_id, r.item_id, 0, 0, 0, count(*), sum(r.reward), sum(r.reward * r.reward),
                NULL
            FROM analytics_rated AS r
            WHERE r.retrieved_at >= since AND r.retrieved_at < until
                AND (analytics_shown_items.collection IS NULL OR r.collection = analytics_shown_items.collection)
            GROUP BY r.collection, r.collection_id, r.item_id
        ) AS one
        GROUP BY one.name, one.collection_id, one.item_id
    ) AS summed
    LEFT JOIN items AS i ON i.collection_id = summed.collection_id AND i.item_id = summed.item_id;
END;
COMMENT ON FUNCTION analytics_shown_items(text, timestamptz, timestamptz) IS
    'Impressions of a period by item: their number, mean rank and reward.';

CREATE TYPE analytics_rising_items_row AS (
    collection text, item_id text, title text, used bigint, used_before bigint, shown bigint, shown_before bigint,
    rise double precision
);
COMMENT ON COLUMN analytics_rising_items_row.used IS 'The feedback events that count, received in the period.';
COMMENT ON COLUMN analytics_rising_items_row.used_before IS 'The same in the period of equal length before.';
COMMENT ON COLUMN analytics_rising_items_row.shown IS 'Impressions in the period.';
COMMENT ON COLUMN analytics_rising_items_row.shown_before IS 'The same in the period of equal length before.';
COMMENT ON COLUMN analytics_rising_items_row.rise IS '(used + 1) / (used_before + 1): above 1 it rises, below 1 it sinks.';

CREATE FUNCTION analytics_rising_items(
    collection text DEFAULT NULL, since timestamptz DEFAULT now() - interval '14 days', until timestamptz DEFAULT now()
) RETURNS SETOF analytics_rising_items_row LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT summed.name, summed.item_id, i.title, summed.used, summed.used_before, summed.shown, summed.shown_before,
        (summed.used + 1) / (summed.used_before + 1)::double precision
    FROM (
        SELECT one.name, one.collection_id, one.item_id,
            count(*) FILTER (WHERE one.is_use AND one.at >= since) AS used,
            count(*) FILTER (WHERE one.is_use AND one.at < since) AS used_before,
            count(*) FILTER (WHERE NOT one.is_use AND one.at >= since) AS shown,
            count(*) FILTER (WHERE NOT one.is_use AND one.at < since) AS shown_before
        FROM (
            SELECT c.name, f.collection_id, f.item_id, f.received_at AS at, true AS is_use
            FROM collections AS c
            JOIN feedback AS f ON f.collection_id = c.collection_id
            WHERE f.received_at >= since - least(until - since, since - timestamptz '0001-01-01 00:00:00+00')
                AND f.received_at < until
                AND f.superseded_at IS NULL AND f.weight > 0
                AND (analytics_rising_items.collection IS NULL OR c.name = analytics_rising_items.collection)
            UNION ALL
            SELECT c.name, m.collection_id, m.item_id, m.retrieved_at, false
            FROM collections AS c
            JOIN impressions AS m ON m.collection_id = c.collection_id
            WHERE m.retrieved_at >= since - least(until - since, since - timestamptz '0001-01-01 00:00:00+00')
                AND m.retrieved_at < until
                AND (analytics_rising_items.collection IS NULL OR c.name = analytics_rising_items.collection)
        ) AS one
        GROUP BY one.name, one.collection_id, one.item_id
    ) AS summed
    LEFT JOIN items AS i ON i.collection_id = summed.collection_id AND i.item_id = summed.item_id
    WHERE summed.used <> summed.used_before;
END;
COMMENT ON FUNCTION analytics_rising_items(text, timestamptz, timestamptz) IS
    'Items that rise or sink: used more, or less, in a period than in the one of equal length before it.';

GRANT SELECT ON analytics_usage, analytics_unused_items TO @app@, @analyst@;

GRANT EXECUTE ON FUNCTION wilson_low, wilson_high, standard_error, analytics_usage_by_day, analytics_contexts,
    analytics_unused_items_rows, analytics_shown_items, analytics_rising_items TO @app@, @analyst@;
