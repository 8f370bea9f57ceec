-- What an event of that time weighs in an arm: 2^((time - landmark) / half-life). All weights grow with the time of the
-- event and none shrinks, so that arms add up in any order; who reads an arm divides by the weight of the moment.
-- An event that says it happened after it arrived is one of its arrival: a clock that is fast must not outweigh others.
-- An event more than 400 half-lives before the landmark weighs nothing, and so little is nothing at a later moment too:
-- then no product of the two, with the smallest of rewards and weights, is too small for a double, which is an error.
CREATE OR REPLACE FUNCTION decay_weight(event_time timestamptz, landmark timestamptz, half_life_days double precision)
RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN extract(epoch FROM event_time - landmark)::double precision / (half_life_days * 86400) < -400 THEN 0
    ELSE power(
        2::double precision, extract(epoch FROM event_time - landmark)::double precision / (half_life_days * 86400)
    )
END;
GRANT EXECUTE ON FUNCTION decay_weight(timestamptz, timestamptz, double precision) TO @app@;
REVOKE ALL ON FUNCTION decay_weight(timestamptz, timestamptz, double precision) FROM PUBLIC;
