-- The instant that an ISO 8601 text says; NULL for any other text, so that no value can fail an ingest.
-- Without a zone it is UTC; digits beyond microseconds do not count.
CREATE OR REPLACE FUNCTION attribute_time(value text) RETURNS timestamptz
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE AS $$
DECLARE
    -- date, hours and minutes, seconds, fraction, zone
    parts CONSTANT text[] := regexp_match(value,
        '^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]((?:[01][0-9]|2[0-3]):[0-5][0-9])'
        '(?::([0-5][0-9])(?:[.,]([0-9]{1,6})[0-9]*)?)?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?$');
    said CONSTANT text := format('%s %s:%s.%s%s', parts[1], coalesce(parts[2], '00:00'), coalesce(parts[3], '00'),
        coalesce(parts[4], '0'), coalesce(nullif(parts[5], 'Z'), '+00'));
BEGIN
    IF parts IS NULL OR NOT pg_input_is_valid(said, 'timestamptz') THEN
        RETURN NULL;
    END IF;
    RETURN said::timestamptz;
END
$$;
REVOKE ALL ON FUNCTION attribute_time(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION attribute_time(text) TO @app@;
