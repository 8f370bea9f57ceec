-- The impressions that were rated, each with its reward: what the figures about exploration, ranks and profiles rest on.
-- The period and the collection reach the tables below, because both are what it groups by.
CREATE VIEW analytics_rated WITH (security_invoker = true) AS
SELECT
    c.name AS collection, m.retrieved_at, m.retrieval_id, m.item_id, m.rank, m.slot, m.propensity, m.rank_propensity,
    sum(f.weight * f.reward) / sum(f.weight) AS reward, sum(f.weight) AS weight, count(*) AS verdicts,
    m.collection_id
FROM collections AS c
JOIN impressions AS m ON m.collection_id = c.collection_id
JOIN feedback AS f
    ON f.collection_id = m.collection_id AND f.retrieval_id = m.retrieval_id AND f.item_id = m.item_id
WHERE f.superseded_at IS NULL AND f.weight > 0
GROUP BY c.name, m.collection_id, m.retrieval_id, m.item_id, m.retrieved_at, m.rank, m.slot, m.propensity,
    m.rank_propensity;
COMMENT ON VIEW analytics_rated IS 'Impressions with feedback that counts, each with its reward.';
COMMENT ON COLUMN analytics_rated.slot IS 'exploit, explore or swap.';
COMMENT ON COLUMN analytics_rated.propensity IS 'How probable it was that the item was shown.';
COMMENT ON COLUMN analytics_rated.rank_propensity IS 'How probable it was that it stood at this rank.';
COMMENT ON COLUMN analytics_rated.reward IS 'The mean of its verdicts that count, by their weights.';
COMMENT ON COLUMN analytics_rated.weight IS 'The sum of those weights.';
COMMENT ON COLUMN analytics_rated.verdicts IS 'How many verdicts there are: none superseded, none discounted.';
COMMENT ON COLUMN analytics_rated.collection_id IS 'To join with the tables.';
GRANT SELECT ON analytics_rated TO @app@, @analyst@;
