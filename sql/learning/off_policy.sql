-- Off-policy estimates: the rewards that two other policies, the targets, would have earned on recorded searches.

-- The evidence of recorded searches since a time, with a row for each target and retrieval: the summands of the
-- estimates and of the diagnostics of the weights.
-- The targets have five parallel arrays, with an entry for each item that a target might show for a retrieval: the
-- target, 1 or 2, the probability of that, and a model's estimate of the reward. Other retrievals are left out. An
-- impression's reward is the weighted mean of its live feedback, else default_reward (NULL: it has none, and does not
-- enter any estimate). A weight is probability / propensity; clip is the maximum of a clipped weight.
-- It runs with the caller's rights, so that the policies apply. The planner does not know the length of the arrays and
-- would scan them for each impression, so nested loops are disabled: minutes become a second.
CREATE OR REPLACE FUNCTION off_policy_terms(
    collection bigint, since timestamptz, default_reward double precision, clip double precision,
    targets integer[], retrieval_ids uuid[], item_ids text[], probabilities double precision[],
    modelled_rewards double precision[]
)
RETURNS TABLE (
    target integer,
    retrieval_id uuid,
    shown bigint,
    rated bigint,
    expected double precision,         -- items that the target shows, on average
    direct double precision,           -- their modelled rewards, by probability
    weight double precision,           -- of all that was shown
    max_weight double precision,
    clipped bigint,                    -- impressions above the clip
    rated_weight double precision,
    rated_weight_clipped double precision,
    earned double precision,           -- weight * reward
    earned_clipped double precision,
    corrected double precision,        -- weight * (reward - modelled reward)
    corrected_clipped double precision
)
LANGUAGE sql STABLE SET enable_nestloop = off AS $$
    WITH entry AS MATERIALIZED (
        SELECT given.target, given.retrieval_id, given.item_id, given.probability, given.modelled
        FROM unnest(targets, retrieval_ids, item_ids, probabilities, modelled_rewards)
            AS given (target, retrieval_id, item_id, probability, modelled)
    ),
    slate AS MATERIALIZED (
        SELECT
            entry.target, entry.retrieval_id, sum(entry.probability) AS expected,
            sum(entry.probability * entry.modelled) AS direct
        FROM entry
        GROUP BY entry.target, entry.retrieval_id
    ),
    impression AS (
        SELECT
            shown.retrieval_id, shown.item_id, shown.propensity,
            coalesce(sum(said.weight * said.reward) / sum(said.weight), default_reward) AS reward
        FROM (SELECT DISTINCT slate.retrieval_id FROM slate) AS asked
        JOIN impressions AS shown ON shown.collection_id = collection AND shown.retrieval_id = asked.retrieval_id
            AND shown.retrieved_at >= since
        LEFT JOIN feedback AS said ON said.collection_id = collection AND said.retrieval_id = shown.retrieval_id
            AND said.item_id = shown.item_id AND said.superseded_at IS NULL AND said.weight > 0
        GROUP BY shown.retrieval_id, shown.item_id, shown.propensity
    ),
    weighed AS (
        SELECT
            slate.*, impression.reward, impression.reward - coalesce(entry.modelled, 0) AS surprise,
            coalesce(entry.probability, 0) / impression.propensity AS weight,
            least(coalesce(entry.probability, 0) / impression.propensity, clip) AS clipped_weight
        FROM slate
        JOIN impression ON impression.retrieval_id = slate.retrieval_id
        LEFT JOIN entry ON entry.target = slate.target AND entry.retrieval_id = slate.retrieval_id
            AND entry.item_id = impression.item_id
    )
    SELECT
        one.target, one.retrieval_id, count(*), count(one.reward), one.expected, one.direct,
        sum(one.weight), max(one.weight), count(*) FILTER (WHERE one.weight > clip),
        coalesce(sum(one.weight) FILTER (WHERE one.reward IS NOT NULL), 0),
        coalesce(sum(one.clipped_weight) FILTER (WHERE one.reward IS NOT NULL), 0),
        coalesce(sum(one.weight * one.reward), 0), coalesce(sum(one.clipped_weight * one.reward), 0),
        coalesce(sum(one.weight * one.surprise), 0), coalesce(sum(one.clipped_weight * one.surprise), 0)
    FROM weighed AS one
    GROUP BY one.target, one.retrieval_id, one.expected, one.direct
$$;

-- The estimated rewards of both targets on recorded searches, and their difference, by estimator, plain and clipped,
-- with standard errors clustered by retrieval (NULL for a single retrieval). An estimate is the sum of numerators over
-- the sum of denominators; a residual is (numerator - value * denominator) / that sum, so that the sum of squared
-- residuals is the estimate's variance, with retrievals as independent units. The difference is paired, because both
-- targets weigh the same rewards, so its error is that of the retrievals' differences. Both targets must have the same
-- retrievals. The arguments are those of off_policy_terms.
CREATE OR REPLACE FUNCTION off_policy_comparison(
    collection bigint, since timestamptz, default_reward double precision, clip double precision,
    targets integer[], retrieval_ids uuid[], item_ids text[], probabilities double precision[],
    modelled_rewards double precision[]
)
RETURNS TABLE (
    estimator text, is_clipped boolean,
    value double precision, standard_error double precision,
    other_value double precision, other_standard_error double precision,
    difference double precision, difference_standard_error double precision
)
LANGUAGE sql STABLE AS $$
    WITH part AS MATERIALIZED (
        SELECT term.target, term.retrieval_id, each.estimator, each.is_clipped, each.numerator, each.denominator
        FROM off_policy_terms(
            collection, since, default_reward, clip, targets, retrieval_ids, item_ids, probabilities, modelled_rewards
        ) AS term
        CROSS JOIN LATERAL (SELECT term.rated::double precision / term.shown) AS rated (share)
        CROSS JOIN LATERAL (VALUES
            ('ips', false, term.earned, rated.share * term.expected),
            ('ips', true, term.earned_clipped, rated.share * term.expected),
            ('snips', false, term.earned, term.rated_weight),
            ('snips', true, term.earned_clipped, term.rated_weight_clipped),
            ('dr', false, rated.share * term.direct + term.corrected, rated.share * term.expected),
            ('dr', true, rated.share * term.direct + term.corrected_clipped, rated.share * term.expected)
        ) AS each (estimator, is_clipped, numerator, denominator)
        WHERE term.rated > 0
    ),
    residual AS MATERIALIZED (
        SELECT part.*, total.value, (part.numerator - total.value * part.denominator) / total.denominator AS error
        FROM part
        JOIN (
            SELECT
                one.target, one.estimator, one.is_clipped, sum(one.denominator) AS denominator,
                sum(one.numerator) / sum(one.denominator) AS value
            FROM part AS one
            GROUP BY one.target, one.estimator, one.is_clipped
            HAVING sum(one.denominator) > 0
        ) AS total USING (target, estimator, is_clipped)
    )
    SELECT
        one.estimator, one.is_clipped,
        min(one.value), sqrt(count(*)::double precision / nullif(count(*) - 1, 0) * sum(one.error ^ 2)),
        min(other.value), sqrt(count(*)::double precision / nullif(count(*) - 1, 0) * sum(other.error ^ 2)),
        min(one.value) - min(other.value),
        sqrt(count(*)::double precision / nullif(count(*) - 1, 0) * sum((one.error - other.error) ^ 2))
    FROM residual AS one
    JOIN residual AS other ON other.target = 2 AND other.retrieval_id = one.retrieval_id
        AND other.estimator = one.estimator AND other.is_clipped = one.is_clipped
    WHERE one.target = 1
    GROUP BY one.estimator, one.is_clipped
$$;

-- Diagnostics of each target's weights on recorded searches. The effective sample size is (sum W)^2 / sum W^2 over
-- retrievals, with W the weight of a retrieval's rated impressions; the mean weight has to equal the expected weight,
-- within its error, if the recorded policies can show everything that the target shows. The arguments are those of
-- off_policy_terms.
CREATE OR REPLACE FUNCTION off_policy_weighing(
    collection bigint, since timestamptz, default_reward double precision, clip double precision,
    targets integer[], retrieval_ids uuid[], item_ids text[], probabilities double precision[],
    modelled_rewards double precision[]
)
RETURNS TABLE (
    retrievals bigint, impressions bigint, rated bigint, effective_sample_size double precision,
    mean_weight double precision, expected_weight double precision, weight_error double precision,
    max_weight double precision, clipped bigint
)
LANGUAGE sql STABLE AS $$
    SELECT
        count(term.target), coalesce(sum(term.shown), 0)::bigint, coalesce(sum(term.rated), 0)::bigint,
        coalesce(sum(term.rated_weight) ^ 2 / nullif(sum(term.rated_weight ^ 2), 0), 0),
        avg(term.weight), avg(term.expected), stddev_samp(term.weight - term.expected) / sqrt(count(*)),
        max(term.max_weight), coalesce(sum(term.clipped), 0)::bigint
    FROM (VALUES (1), (2)) AS each (target)
    LEFT JOIN off_policy_terms(
        collection, since, default_reward, clip, targets, retrieval_ids, item_ids, probabilities, modelled_rewards
    ) AS term ON term.target = each.target
    GROUP BY each.target
    ORDER BY each.target
$$;

-- Searches since a time that interleaved two profiles' hits (team draft), by the profiles' names in either order, and
-- the rewards of each profile's hits: the sum over impressions of the weighted mean of their live feedback. Both are
-- NULL without feedback. It runs with the caller's rights.
CREATE OR REPLACE FUNCTION interleaved_results(
    collection bigint, since timestamptz, first_name text, second_name text
)
RETURNS TABLE (retrieval_id uuid, first_earned double precision, second_earned double precision)
LANGUAGE sql STABLE AS $$
    WITH search AS MATERIALIZED (
        SELECT asked.retrieval_id, asked.request->'interleaved'->>'a' = first_name AS is_in_order
        FROM retrievals AS asked
        WHERE asked.collection_id = collection AND asked.retrieved_at >= since AND (
            (asked.request->'interleaved'->>'a' = first_name AND asked.request->'interleaved'->>'b' = second_name)
            OR (asked.request->'interleaved'->>'a' = second_name AND asked.request->'interleaved'->>'b' = first_name)
        )
    ),
    impression AS (
        SELECT
            search.retrieval_id, (shown.signals->>'team' = 'a') = search.is_in_order AS is_firsts,
            sum(said.weight * said.reward) / sum(said.weight) AS reward
        FROM search
        LEFT JOIN impressions AS shown ON shown.collection_id = collection AND shown.retrieval_id = search.retrieval_id
            AND shown.retrieved_at >= since
        LEFT JOIN feedback AS said ON said.collection_id = collection AND said.retrieval_id = shown.retrieval_id
            AND said.item_id = shown.item_id AND said.superseded_at IS NULL AND said.weight > 0
        GROUP BY search.retrieval_id, shown.item_id, is_firsts
    )
    SELECT
        impression.retrieval_id,
        CASE WHEN count(impression.reward) > 0
            THEN coalesce(sum(impression.reward) FILTER (WHERE impression.is_firsts), 0) END,
        CASE WHEN count(impression.reward) > 0
            THEN coalesce(sum(impression.reward) FILTER (WHERE NOT impression.is_firsts), 0) END
    FROM impression
    GROUP BY impression.retrieval_id
$$;

GRANT EXECUTE ON FUNCTION off_policy_terms, off_policy_comparison, off_policy_weighing, interleaved_results
    TO @app@, @analyst@;
