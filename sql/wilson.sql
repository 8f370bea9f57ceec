-- The ends of Wilson's 95 % interval of a rate, from raw counts: it stays within 0 and 1 and is honest for few trials.
-- E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927). NULL: no trial.
CREATE FUNCTION wilson_low(successes bigint, trials bigint) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN trials > 0 THEN greatest(0, (successes + 1.920729410347062 - 1.959963984540054 * sqrt(
    successes * (trials - successes) / trials::double precision + 0.960364705173531)) / (trials + 3.841458820694124)) END;

CREATE FUNCTION wilson_high(successes bigint, trials bigint) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN trials > 0 THEN least(1, (successes + 1.920729410347062 + 1.959963984540054 * sqrt(
    successes * (trials - successes) / trials::double precision + 0.960364705173531)) / (trials + 3.841458820694124)) END;

-- The standard error of a mean, from how many values there are, their sum and the sum of their squares.
CREATE FUNCTION standard_error(number bigint, total double precision, squares double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN number > 1 THEN
    sqrt(greatest(0, squares - total * total / number) / (number - 1) / number) END;

REVOKE ALL ON FUNCTION wilson_low(bigint, bigint), wilson_high(bigint, bigint),
    standard_error(bigint, double precision, double precision) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION wilson_low(bigint, bigint), wilson_high(bigint, bigint),
    standard_error(bigint, double precision, double precision) TO @app@, @analyst@;
