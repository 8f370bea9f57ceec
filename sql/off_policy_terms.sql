-- What recorded searches since a moment say about another policy, the target, a row a retrieval: the parts that the
-- estimates and the diagnostics of the weights are summed from. The same as retrieval/learning/off_policy.py.
-- The target: four arrays side by side, an entry for each item that it might show for a retrieval, with the probability
-- of that and a model's guess of the reward. Retrievals that it says nothing about are left out.
-- An impression's reward is the mean of the live feedback for it, by weight; else default_reward (NULL: unrated, and
-- then it is no part of any estimate). A weight is probability / propensity; clip is the most that a clipped one counts.
-- It has no rights of its own: the policies hold for whoever asks. The planner does not know how long the arrays are and
-- would go through them once an impression, so it may not loop: minutes become a second.
CREATE OR REPLACE FUNCTION off_policy_terms(
    collection bigint, since timestamptz, default_reward double precision, clip double precision,
    retrieval_ids uuid[], item_ids text[], probabilities double precision[], modelled_rewards double precision[]
)
RETURNS TABLE (
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
    WITH target AS MATERIALIZED (
        SELECT given.retrieval_id, given.item_id, given.probability, given.modelled
        FROM unnest(retrieval_ids, item_ids, probabilities, modelled_rewards)
            AS given (retrieval_id, item_id, probability, modelled)
    ),
    slate AS MATERIALIZED (
        SELECT target.retrieval_id, sum(target.probability) AS expected, sum(target.probability * target.modelled) AS direct
        FROM target
        GROUP BY target.retrieval_id
    ),
    impression AS (
        SELECT
            shown.retrieval_id, shown.item_id, shown.propensity,
            coalesce(sum(said.weight * said.reward) / sum(said.weight), default_reward) AS reward
        FROM slate
        JOIN impressions AS shown ON shown.collection_id = collection AND shown.retrieval_id = slate.retrieval_id
            AND shown.retrieved_at >= since
        LEFT JOIN feedback AS said ON said.collection_id = collection AND said.retrieval_id = shown.retrieval_id
            AND said.item_id = shown.item_id AND said.superseded_at IS NULL AND said.weight > 0
        GROUP BY shown.retrieval_id, shown.item_id, shown.propensity
    ),
    weighed AS (
        SELECT
            impression.retrieval_id, impression.reward, coalesce(target.modelled, 0) AS modelled,
            coalesce(target.probability, 0) / impression.propensity AS weight,
            least(coalesce(target.probability, 0) / impression.propensity, clip) AS clipped_weight
        FROM impression
        LEFT JOIN target ON target.retrieval_id = impression.retrieval_id AND target.item_id = impression.item_id
    )
    SELECT
        slate.retrieval_id, count(*), count(weighed.reward), slate.expected, slate.direct,
        sum(weighed.weight), max(weighed.weight), count(*) FILTER (WHERE weighed.weight > clip),
        coalesce(sum(weighed.weight) FILTER (WHERE weighed.reward IS NOT NULL), 0),
        coalesce(sum(weighed.clipped_weight) FILTER (WHERE weighed.reward IS NOT NULL), 0),
        coalesce(sum(weighed.weight * weighed.reward), 0),
        coalesce(sum(weighed.clipped_weight * weighed.reward), 0),
        coalesce(sum(weighed.weight * (weighed.reward - weighed.modelled)), 0),
        coalesce(sum(weighed.clipped_weight * (weighed.reward - weighed.modelled)), 0)
    FROM slate
    JOIN weighed ON weighed.retrieval_id = slate.retrieval_id
    GROUP BY slate.retrieval_id, slate.expected, slate.direct
$$;

REVOKE ALL ON FUNCTION off_policy_terms(
    bigint, timestamptz, double precision, double precision, uuid[], text[], double precision[], double precision[]
) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION off_policy_terms(
    bigint, timestamptz, double precision, double precision, uuid[], text[], double precision[], double precision[]
) TO @app@;
