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
        summed.exploit_rated, summed.exploit_reward, summed.explore_rated, summed.explore_reward,
        summed.exploit_reward - summed.explore_reward,
        sqrt(summed.exploit_variance / summed.exploit_rated + summed.explore_variance / summed.explore_rated)
    FROM (
        SELECT one.name, (one.retrieved_at AT TIME ZONE 'UTC')::date AS day, count(one.shown) AS shown,
            count(one.shown) FILTER (WHERE one.slot = 'explore') AS explored,
            count(one.shown) FILTER (WHERE one.slot = 'swap') AS swapped,
            count(one.reward) FILTER (WHERE one.slot = 'exploit') AS exploit_rated,
            avg(one.reward) FILTER (WHERE one.slot = 'exploit') AS exploit_reward,
            var_samp(one.reward) FILTER (WHERE one.slot = 'exploit') AS exploit_variance,
            count(one.reward) FILTER (WHERE one.slot = 'explore') AS explore_rated,
            avg(one.reward) FILTER (WHERE one.slot = 'explore') AS explore_reward,
            var_samp(one.reward) FILTER (WHERE one.slot = 'explore') AS explore_variance
        FROM shown_and_rated(collection, since, until) AS one
        GROUP BY one.name, ROLLUP (2)
    ) AS summed;
END;
COMMENT ON FUNCTION analytics_exploration(text, timestamptz, timestamptz) IS
    'The share of exploration in a period and its cost, by day and in all.';

CREATE TYPE analytics_positions_row AS (
    collection text, rank integer, shown bigint, rated bigint, reward double precision, reward_se double precision,
    swapped bigint, swapped_rated bigint, swapped_reward double precision, swapped_reward_se double precision
);
COMMENT ON COLUMN analytics_positions_row.rank IS 'The rank, from 1.';
COMMENT ON COLUMN analytics_positions_row.shown IS 'The impressions at that rank.';
COMMENT ON COLUMN analytics_positions_row.rated IS 'Those of them with feedback that counts.';
COMMENT ON COLUMN analytics_positions_row.reward IS
    'The mean reward of the rated impressions, an effect of both the rank and the items.';
COMMENT ON COLUMN analytics_positions_row.reward_se IS 'Its standard error.';
COMMENT ON COLUMN analytics_positions_row.swapped IS
    'The impressions at that rank whose item had changed places with its neighbour.';
COMMENT ON COLUMN analytics_positions_row.swapped_rated IS 'Those of them with feedback that counts.';
COMMENT ON COLUMN analytics_positions_row.swapped_reward IS 'Their mean reward: the worse item stands higher here, so '
    'what still falls from rank to rank is the place''s.';
COMMENT ON COLUMN analytics_positions_row.swapped_reward_se IS 'Its standard error.';

CREATE FUNCTION analytics_positions(
    collection text DEFAULT NULL, since timestamptz DEFAULT now() - interval '28 days',
    until timestamptz DEFAULT 'infinity'
) RETURNS SETOF analytics_positions_row LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT one.name, one.rank, count(one.shown), count(one.reward), avg(one.reward),
        stddev_samp(one.reward) / sqrt(count(one.reward)),
        count(one.shown) FILTER (WHERE one.slot = 'swap'), count(one.reward) FILTER (WHERE one.slot = 'swap'),
        avg(one.reward) FILTER (WHERE one.slot = 'swap'),
        stddev_samp(one.reward) FILTER (WHERE one.slot = 'swap')
            / sqrt(count(one.reward) FILTER (WHERE one.slot = 'swap'))
    FROM shown_and_rated(collection, since, until) AS one
    GROUP BY one.name, one.rank;
END;
COMMENT ON FUNCTION analytics_positions(text, timestamptz, timestamptz) IS
    'The reward of each rank in a period, over all impressions and over swapped impressions alone.';

GRANT EXECUTE ON FUNCTION analytics_exploration, analytics_positions TO @app@, @analyst@;
