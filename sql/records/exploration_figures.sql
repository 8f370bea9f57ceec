-- Figures about exploration and ranks: the extent and cost of exploration, and the value of a rank.
CREATE TYPE analytics_exploration_row AS (
    collection text, day date, shown bigint, explored bigint, swapped bigint, explored_share double precision,
    exploit_rated bigint, exploit_reward double precision, explore_rated bigint, explore_reward double precision,
    cost double precision, cost_se double precision
);
COMMENT ON COLUMN analytics_exploration_row.day IS 'The day in UTC; NULL: the whole period.';
COMMENT ON COLUMN analytics_exploration_row.shown IS 'Impressions.';
COMMENT ON COLUMN analytics_exploration_row.explored IS 'The impressions that the exploration policy picked.';
COMMENT ON COLUMN analytics_exploration_row.swapped IS 'The impressions that changed places with a neighbour.';
COMMENT ON COLUMN analytics_exploration_row.explored_share IS 'explored / shown.';
COMMENT ON COLUMN analytics_exploration_row.exploit_rated IS
    'The impressions in exploit slots with feedback that counts.';
COMMENT ON COLUMN analytics_exploration_row.exploit_reward IS 'The mean reward of those.';
COMMENT ON COLUMN analytics_exploration_row.explore_rated IS
    'The impressions in explore slots with feedback that counts.';
COMMENT ON COLUMN analytics_exploration_row.explore_reward IS 'The mean reward of those.';
COMMENT ON COLUMN analytics_exploration_row.cost IS
    'exploit_reward - explore_reward, the raw means of rated impressions.';
COMMENT ON COLUMN analytics_exploration_row.cost_se IS
    'The standard error of the cost, with impressions as independent.';

CREATE FUNCTION analytics_exploration(
    collection text DEFAULT NULL, since timestamptz DEFAULT now() - interval '28 days',
    until timestamptz DEFAULT 'infinity'
) RETURNS SETOF analytics_exploration_row LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT summed.name, summed.day, summed.shown, summed.explored, summed.swapped,
        summed.explored / nullif(summed.shown, 0)::double precision,
        summed.exploit_rated, summed.exploit_total / nullif(summed.exploit_rated, 0),
        summed.explore_rated, summed.explore_total / nullif(summed.explore_rated, 0),
        summed.exploit_total / nullif(summed.exploit_rated, 0) - summed.explore_total / nullif(summed.explore_rated, 0),
        sqrt(power(standard_error(summed.exploit_rated, summed.exploit_total, summed.exploit_squares), 2)
            + power(standard_error(summed.explore_rated, summed.explore_total, summed.explore_squares), 2))
    FROM (
        SELECT one.name, one.day, sum(one.shown)::bigint AS shown,
            coalesce(sum(one.shown) FILTER (WHERE one.slot = 'explore'), 0)::bigint AS explored,
            coalesce(sum(one.shown) FILTER (WHERE one.slot = 'swap'), 0)::bigint AS swapped,
            coalesce(sum(one.rated) FILTER (WHERE one.slot = 'exploit'), 0)::bigint AS exploit_rated,
            sum(one.total) FILTER (WHERE one.slot = 'exploit') AS exploit_total,
            sum(one.squares) FILTER (WHERE one.slot = 'exploit') AS exploit_squares,
            coalesce(sum(one.rated) FILTER (WHERE one.slot = 'explore'), 0)::bigint AS explore_rated,
            sum(one.total) FILTER (WHERE one.slot = 'explore') AS explore_total,
            sum(one.squares) FILTER (WHERE one.slot = 'explore') AS explore_squares
        FROM (
            SELECT c.name, (m.retrieved_at AT TIME ZONE 'UTC')::date AS day, m.slot, count(*) AS shown, 0 AS rated,
                0::double precision AS total, 0::double precision AS squares
            FROM collections AS c
            JOIN impressions AS m ON m.collection_id = c.collection_id
            WHERE m.retrieved_at >= since AND m.retrieved_at < until
                AND (analytics_exploration.collection IS NULL OR c.name = analytics_exploration.collection)
            GROUP BY c.name, 2, m.slot
            UNION ALL
            SELECT r.collection, (r.retrieved_at AT TIME ZONE 'UTC')::date, r.slot, 0, count(*), sum(r.reward),
                sum(r.reward * r.reward)
            FROM analytics_rated AS r
            WHERE r.retrieved_at >= since AND r.retrieved_at < until
                AND (analytics_exploration.collection IS NULL OR r.collection = analytics_exploration.collection)
            GROUP BY r.collection, 2, r.slot
        ) AS one
        GROUP BY one.name, ROLLUP (one.day)
    ) AS summed;
END;
COMMENT ON FUNCTION analytics_exploration(text, timestamptz, timestamptz) IS
    'The share of exploration in a period and its cost, by day and in all.';

CREATE TYPE analytics_positions_row AS (
    collection text, rank integer, shown bigint, rated bigint, reward double precision, reward_se double precision,
    swapped bigint, lowered_rated bigint, lowered_reward double precision, lowered_reward_se double precision,
    raised_rated bigint, raised_reward double precision, raised_reward_se double precision
);
COMMENT ON COLUMN analytics_positions_row.rank IS 'The rank, from 1.';
COMMENT ON COLUMN analytics_positions_row.shown IS 'The impressions at that rank.';
COMMENT ON COLUMN analytics_positions_row.rated IS 'Those of them with feedback that counts.';
COMMENT ON COLUMN analytics_positions_row.reward IS
    'The mean reward of the rated impressions, an effect of both the rank and the items.';
COMMENT ON COLUMN analytics_positions_row.reward_se IS 'Its standard error.';
COMMENT ON COLUMN analytics_positions_row.swapped IS 'The swaps of that rank and the rank before it.';
COMMENT ON COLUMN analytics_positions_row.lowered_rated IS
    'Of these swaps, the items with the better score, at that rank, with feedback that counts.';
COMMENT ON COLUMN analytics_positions_row.lowered_reward IS 'Their mean reward.';
COMMENT ON COLUMN analytics_positions_row.lowered_reward_se IS 'Its standard error.';
COMMENT ON COLUMN analytics_positions_row.raised_rated IS
    'Of these swaps, the items with the worse score, at the rank before, with feedback that counts.';
COMMENT ON COLUMN analytics_positions_row.raised_reward IS
    'Their mean reward: if it is higher than lowered_reward, the rank has an effect.';
COMMENT ON COLUMN analytics_positions_row.raised_reward_se IS 'Its standard error.';

CREATE FUNCTION analytics_positions(
    collection text DEFAULT NULL, since timestamptz DEFAULT now() - interval '28 days',
    until timestamptz DEFAULT 'infinity'
) RETURNS SETOF analytics_positions_row LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT summed.name, summed.rank, summed.shown, summed.rated, summed.total / nullif(summed.rated, 0),
        standard_error(summed.rated, summed.total, summed.squares),
        summed.swapped, summed.lowered, summed.lowered_total / nullif(summed.lowered, 0),
        standard_error(summed.lowered, summed.lowered_total, summed.lowered_squares),
        summed.raised, summed.raised_total / nullif(summed.raised, 0),
        standard_error(summed.raised, summed.raised_total, summed.raised_squares)
    FROM (
        SELECT one.name, one.collection_id, one.rank, sum(one.shown)::bigint AS shown, sum(one.rated)::bigint AS rated,
            sum(one.total) AS total, sum(one.squares) AS squares,
            coalesce(sum(one.shown) FILTER (WHERE one.shift = 1), 0)::bigint AS swapped,
            coalesce(sum(one.rated) FILTER (WHERE one.shift = 1), 0)::bigint AS lowered,
            sum(one.total) FILTER (WHERE one.shift = 1) AS lowered_total,
            sum(one.squares) FILTER (WHERE one.shift = 1) AS lowered_squares,
            coalesce(sum(sum(one.rated) FILTER (WHERE one.shift = 0)) OVER rank_before, 0)::bigint AS raised,
            sum(sum(one.total) FILTER (WHERE one.shift = 0)) OVER rank_before AS raised_total,
            sum(sum(one.squares) FILTER (WHERE one.shift = 0)) OVER rank_before AS raised_squares
        FROM (
            -- The shift of a swapped item is 1 if it lost a rank, and 0 if it gained one.
            SELECT c.name, m.collection_id, m.rank, m.rank - m.swapped_at AS shift, count(*) AS shown, 0 AS rated,
                0::double precision AS total, 0::double precision AS squares
            FROM collections AS c
            JOIN impressions AS m ON m.collection_id = c.collection_id
            WHERE m.retrieved_at >= since AND m.retrieved_at < until
                AND (analytics_positions.collection IS NULL OR c.name = analytics_positions.collection)
            GROUP BY c.name, m.collection_id, m.rank, 4
            UNION ALL
            SELECT r.collection, r.collection_id, r.rank, r.rank - r.swapped_at, 0, count(*), sum(r.reward),
                sum(r.reward * r.reward)
            FROM analytics_rated AS r
            WHERE r.retrieved_at >= since AND r.retrieved_at < until
                AND (analytics_positions.collection IS NULL OR r.collection = analytics_positions.collection)
            GROUP BY r.collection, r.collection_id, r.rank, 4
        ) AS one
        GROUP BY one.name, one.collection_id, one.rank
        WINDOW rank_before AS (
            PARTITION BY one.collection_id ORDER BY one.rank RANGE BETWEEN 1 PRECEDING AND 1 PRECEDING
        )
    ) AS summed;
END;
COMMENT ON FUNCTION analytics_positions(text, timestamptz, timestamptz) IS
    'The reward of each rank in a period, over all impressions, and of the two items in swaps with the rank before.';

GRANT EXECUTE ON FUNCTION analytics_exploration, analytics_positions TO @app@, @analyst@;
