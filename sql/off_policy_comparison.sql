-- What a target would have earned on recorded searches, what another would have, and the difference, by estimator, plain
-- and clipped, with standard errors clustered by retrieval (NULL where one retrieval is all there is). The difference is
-- paired: both weigh the same rewards, so its error is that of the retrievals' differences. Both targets must speak of
-- the same retrievals. The arguments are those of off_policy_terms, the second target's after the first's.
CREATE OR REPLACE FUNCTION off_policy_comparison(
    collection bigint, since timestamptz, default_reward double precision, clip double precision,
    retrieval_ids uuid[], item_ids text[], probabilities double precision[], modelled_rewards double precision[],
    other_retrieval_ids uuid[], other_item_ids text[], other_probabilities double precision[],
    other_modelled_rewards double precision[]
)
RETURNS TABLE (
    estimator text, is_clipped boolean,
    value double precision, standard_error double precision,
    other_value double precision, other_standard_error double precision,
    difference double precision, difference_standard_error double precision
)
LANGUAGE sql STABLE AS $$
    SELECT
        one.estimator, one.is_clipped,
        min(one.value), sqrt(count(*)::double precision / nullif(count(*) - 1, 0) * sum(one.residual ^ 2)),
        min(other.value), sqrt(count(*)::double precision / nullif(count(*) - 1, 0) * sum(other.residual ^ 2)),
        min(one.value) - min(other.value),
        sqrt(count(*)::double precision / nullif(count(*) - 1, 0) * sum((one.residual - other.residual) ^ 2))
    FROM off_policy_residuals(
        collection, since, default_reward, clip, retrieval_ids, item_ids, probabilities, modelled_rewards
    ) AS one
    JOIN off_policy_residuals(
        collection, since, default_reward, clip,
        other_retrieval_ids, other_item_ids, other_probabilities, other_modelled_rewards
    ) AS other
        ON other.retrieval_id = one.retrieval_id AND other.estimator = one.estimator
        AND other.is_clipped = one.is_clipped
    GROUP BY one.estimator, one.is_clipped
$$;

REVOKE ALL ON FUNCTION off_policy_comparison(
    bigint, timestamptz, double precision, double precision, uuid[], text[], double precision[], double precision[],
    uuid[], text[], double precision[], double precision[]
) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION off_policy_comparison(
    bigint, timestamptz, double precision, double precision, uuid[], text[], double precision[], double precision[],
    uuid[], text[], double precision[], double precision[]
) TO @app@;
