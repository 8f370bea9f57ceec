-- Recorded searches are in tables by month (UTC), so that old ones are removed with a whole table. The months belong to
-- the installation, not to a tenant. Row-level security denies all direct access to these tables: they are read and
-- written through retrievals, whose policies apply.
ALTER TABLE retrievals OWNER TO @definer@;
ALTER TABLE retrievals_default OWNER TO @definer@;
-- For moving rows out of the default table when their month is made.
CREATE POLICY retrievals_default_definer ON retrievals_default TO @definer@ USING (true);

-- The existing months by their beginning, with their tables, without the default one.
CREATE OR REPLACE FUNCTION known_months() RETURNS TABLE (month timestamptz, part regclass)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT (regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$FROM \('([^']+)'\)$re$))[1]::timestamptz,
        c.oid::regclass
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'retrievals'::regclass AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
$$;

-- The missing months among this one and the next two.
CREATE OR REPLACE FUNCTION missing_months() RETURNS SETOF timestamptz
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT date_trunc('month', now(), 'UTC') + make_interval(months => step)
    FROM generate_series(0, 2) AS step
    EXCEPT
    SELECT m.month FROM known_months() AS m
$$;

-- Makes one month. Rows of that month in the default table move there. A month that was detached is attached again, with
-- its rows.
CREATE OR REPLACE FUNCTION make_month(month timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    -- The interval is added to a local time of UTC, which has no daylight saving time.
    beyond timestamptz := (month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
    part text := 'retrievals' || to_char(month AT TIME ZONE 'UTC', '_YYYY_MM');
BEGIN
    IF to_regclass(format('%I.%I', current_schema(), part)) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE retrievals INCLUDING ALL)', part);
        PERFORM place_by_collection(part);
    ELSE
        -- Row-level security would deny its owner the rows to move.
        EXECUTE format('ALTER TABLE %I NO FORCE ROW LEVEL SECURITY', part);
    END IF;
    -- From here on no row may enter the default table, or the month could not be attached.
    LOCK TABLE retrievals_default IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT 1 FROM retrievals_default AS o WHERE o.retrieved_at >= month AND o.retrieved_at < beyond) THEN
        EXECUTE format('WITH moved AS (
                            DELETE FROM retrievals_default WHERE retrieved_at >= $1 AND retrieved_at < $2 RETURNING *
                        )
                        INSERT INTO %I SELECT * FROM moved', part)
        USING month, beyond;
    END IF;
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', part);
    EXECUTE format('REVOKE ALL ON %I FROM PUBLIC', part);
    EXECUTE format('ALTER TABLE retrievals ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part, month, beyond);
END
$$;

-- Makes the missing months, and those of rows in the default table; returns their number. Takes no lock if there is
-- nothing to do.
CREATE OR REPLACE FUNCTION ensure_months() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '2s' SET timezone = 'UTC' AS $$
DECLARE
    month timestamptz;
    wanted timestamptz[];
    made integer := 0;
BEGIN
    PERFORM 1 FROM missing_months();
    IF NOT FOUND THEN
        PERFORM 1 FROM retrievals_default LIMIT 1;
    END IF;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('retrieval months ' || current_schema(), 0));
    wanted := ARRAY(SELECT DISTINCT date_trunc('month', o.retrieved_at, 'UTC') FROM retrievals_default AS o);
    FOR month IN
        SELECT missing_months()
        UNION
        (SELECT unnest(wanted) EXCEPT SELECT m.month FROM known_months() AS m)
        ORDER BY 1
    LOOP
        PERFORM make_month(month);
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;

-- Removes the months that ended more than this number of days ago; returns their number. Only for logins that may act
-- as the definer role, because the months contain all tenants' rows.
CREATE OR REPLACE FUNCTION drop_months(days integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '2s' SET timezone = 'UTC' AS $$
DECLARE
    old record;
    dropped integer := 0;
BEGIN
    IF days < 1 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'retention is at least a day';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('retrieval months ' || current_schema(), 0));
    FOR old IN SELECT * FROM old_months(days) LOOP
        EXECUTE format('DROP TABLE %s', old.part);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;

-- The months that ended more than this number of days ago.
CREATE OR REPLACE FUNCTION old_months(days integer) RETURNS TABLE (month timestamptz, part regclass)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT m.month, m.part FROM known_months() AS m
    WHERE (m.month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC' <= now() - make_interval(days => days)
$$;

ALTER FUNCTION ensure_months OWNER TO @definer@;
ALTER FUNCTION drop_months OWNER TO @definer@;
GRANT EXECUTE ON FUNCTION known_months, missing_months, old_months TO @app@, @definer@;
GRANT EXECUTE ON FUNCTION make_month TO @definer@;
GRANT EXECUTE ON FUNCTION ensure_months TO @app@;
