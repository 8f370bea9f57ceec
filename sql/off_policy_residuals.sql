-- Each rated retrieval's share of the error of each estimate of a target's value, plain and clipped. An estimate is
-- the sum of the numerators over the sum of the denominators; a residual is (numerator - value * denominator) over that
-- sum, so that the squares of the residuals add up to the estimate's variance, retrievals being what is independent.
-- The arguments are those of off_policy_terms.
CREATE OR REPLACE FUNCTION off_policy_residuals(
    collection bigint, since timestamptz, default_reward double precision, clip double precision,
    retrieval_ids uuid[], item_ids text[], probabilities double precision[], modelled_rewards double precision[]
)
RETURNS TABLE (
    retrieval_id uuid, estimator text, is_clipped boolean, value double precision, residual double precision
)
LANGUAGE sql STABLE AS $$
    WITH part AS MATERIALIZED (
        SELECT term.retrieval_id, each.estimator, each.is_clipped, each.numerator, each.denominator
        FROM off_policy_terms(
            collection, since, default_reward, clip, retrieval_ids, item_ids, probabilities, modelled_rewards
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
    total AS (
        SELECT
            part.estimator, part.is_clipped, sum(part.denominator) AS denominator,
            sum(part.numerator) / sum(part.denominator) AS value
        FROM part
        GROUP BY part.estimator, part.is_clipped
        HAVING sum(part.denominator) > 0
    )
    SELECT
        part.retrieval_id, part.estimator, part.is_clipped, total.value,
        (part.numerator - total.value * part.denominator) / total.denominator
    FROM part
    JOIN total ON total.estimator = part.estimator AND total.is_clipped = part.is_clipped
$$;

REVOKE ALL ON FUNCTION off_policy_residuals(
    bigint, timestamptz, double precision, double precision, uuid[], text[], double precision[], double precision[]
) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION off_policy_residuals(
    bigint, timestamptz, double precision, double precision, uuid[], text[], double precision[], double precision[]
) TO @app@;
