-- How far recorded searches can speak for a target: its weights, looked at. The effective sample size is (sum W)^2 / sum
-- W^2 over retrievals, W being the weight of what is rated; the mean weight has to be the expected one, within its
-- error, where the recorded policies can show all that the target shows. The arguments are those of off_policy_terms.
CREATE OR REPLACE FUNCTION off_policy_weighing(
    collection bigint, since timestamptz, default_reward double precision, clip double precision,
    retrieval_ids uuid[], item_ids text[], probabilities double precision[], modelled_rewards double precision[]
)
RETURNS TABLE (
    retrievals bigint, impressions bigint, rated bigint, effective_sample_size double precision,
    mean_weight double precision, expected_weight double precision, weight_error double precision,
    max_weight double precision, clipped bigint
)
LANGUAGE sql STABLE AS $$
    SELECT
        count(*), coalesce(sum(term.shown), 0)::bigint, coalesce(sum(term.rated), 0)::bigint,
        coalesce(sum(term.rated_weight) ^ 2 / nullif(sum(term.rated_weight ^ 2), 0), 0),
        avg(term.weight), avg(term.expected), stddev_samp(term.weight - term.expected) / sqrt(count(*)),
        max(term.max_weight), coalesce(sum(term.clipped), 0)::bigint
    FROM off_policy_terms(
        collection, since, default_reward, clip, retrieval_ids, item_ids, probabilities, modelled_rewards
    ) AS term
$$;

REVOKE ALL ON FUNCTION off_policy_weighing(
    bigint, timestamptz, double precision, double precision, uuid[], text[], double precision[], double precision[]
) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION off_policy_weighing(
    bigint, timestamptz, double precision, double precision, uuid[], text[], double precision[], double precision[]
) TO @app@;
