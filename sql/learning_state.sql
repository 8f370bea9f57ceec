-- How a collection's arms decay, and how much of an actor counts in a day: as was said, else as it is at first. One row;
-- of a set, so that whoever asks reads the table itself.
CREATE OR REPLACE FUNCTION learning_state(collection bigint)
RETURNS TABLE (landmark timestamptz, half_life_days double precision, daily_cap integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        coalesce(max(state.landmark), '2026-01-01 00:00:00+00'), coalesce(max(state.half_life_days), 30),
        coalesce(max(state.daily_cap), 1000)
    FROM learning_states AS state WHERE state.collection_id = learning_state.collection;
END;
GRANT EXECUTE ON FUNCTION learning_state(bigint) TO @app@, @definer@;
REVOKE ALL ON FUNCTION learning_state(bigint) FROM PUBLIC;
