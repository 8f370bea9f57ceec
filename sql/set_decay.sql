-- Changes the half-life or the landmark of a collection's arms, and computes them anew from their events. What is left
-- of removed events keeps the weight that it has at the moment: when they happened is no longer known.
CREATE OR REPLACE FUNCTION set_decay(
    collection bigint, new_half_life_days double precision, new_landmark timestamptz, moment timestamptz
)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    decay learning_states;
    shift double precision;
BEGIN
    PERFORM pg_advisory_xact_lock(feedback_lock());
    INSERT INTO learning_states AS state (collection_id) VALUES (collection)
    ON CONFLICT ON CONSTRAINT learning_states_pkey DO NOTHING;
    SELECT * INTO decay FROM learning_states AS state WHERE state.collection_id = collection FOR UPDATE;
    UPDATE learning_states AS state SET half_life_days = new_half_life_days, landmark = new_landmark
    WHERE state.collection_id = collection;

    shift := extract(epoch FROM moment - new_landmark)::double precision / (new_half_life_days * 86400)
        - extract(epoch FROM moment - decay.landmark)::double precision / (decay.half_life_days * 86400);
    UPDATE arm_baselines AS base SET
        successes = CASE WHEN base.successes > 0 AND shift > -1000 AND ln(base.successes) / ln(2) + shift > -400
            THEN base.successes * power(2::double precision, shift) ELSE 0 END,
        failures = CASE WHEN base.failures > 0 AND shift > -1000 AND ln(base.failures) / ln(2) + shift > -400
            THEN base.failures * power(2::double precision, shift) ELSE 0 END
    WHERE base.collection_id = collection;
    PERFORM recount_arms(
        collection, ARRAY(SELECT DISTINCT arm.item_id FROM arms AS arm WHERE arm.collection_id = collection), 0
    );
END
$$;
GRANT EXECUTE ON FUNCTION set_decay(bigint, double precision, timestamptz, timestamptz) TO @app@;
REVOKE ALL ON FUNCTION set_decay(bigint, double precision, timestamptz, timestamptz) FROM PUBLIC;
