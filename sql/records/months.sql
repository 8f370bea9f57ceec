-- Recorded searches and impressions lie in tables by month (UTC): what is old goes with its whole table, at once. The
-- months are the installation's, not a tenant's. Their tables have row-level security that lets nobody in and no grants:
-- they are read and written through retrievals and impressions, whose policies hold.
ALTER TABLE retrievals OWNER TO @definer@;
ALTER TABLE retrievals_default OWNER TO @definer@;
ALTER TABLE impressions OWNER TO @definer@;
ALTER TABLE impressions_default OWNER TO @definer@;
-- What fell into no month is moved once its month is made.
CREATE POLICY retrievals_default_definer ON retrievals_default TO @definer@ USING (true) WITH CHECK (true);
CREATE POLICY impressions_default_definer ON impressions_default TO @definer@ USING (true) WITH CHECK (true);

-- The months of a table by their first moment, with their tables; the default one is not among them.
CREATE OR REPLACE FUNCTION months_of(parent regclass) RETURNS TABLE (month timestamptz, part regclass)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT (regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$FROM \('([^']+)'\)$re$))[1]::timestamptz,
        c.oid::regclass
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = parent AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
$$;

-- Of retrievals or impressions, the months that there should be and are not: this one and the next two.
CREATE OR REPLACE FUNCTION missing_months(parent regclass) RETURNS SETOF timestamptz
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT date_trunc('month', now(), 'UTC') + make_interval(months => step)
    FROM generate_series(0, 2) AS step
    EXCEPT
    SELECT m.month FROM months_of(parent) AS m
$$;

-- Make one month of retrievals or impressions. What had fallen into no month meanwhile is moved there.
CREATE OR REPLACE FUNCTION make_month(parent regclass, month timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    -- An interval is added to a time of day, of which UTC has no two kinds.
    beyond timestamptz := (month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
    family text := (SELECT c.relname FROM pg_class c WHERE c.oid = parent);
    part text := family || to_char(month AT TIME ZONE 'UTC', '_YYYY_MM');
    others text := family || '_default';
    is_moving boolean;
BEGIN
    EXECUTE format('CREATE TABLE %I.%I (LIKE %s INCLUDING ALL)', current_schema(), part, parent);
    -- Nothing may fall into the default table from here on, or the month could not be attached.
    EXECUTE format('LOCK TABLE %I.%I IN ACCESS EXCLUSIVE MODE', current_schema(), others);
    EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I WHERE retrieved_at >= $1 AND retrieved_at < $2)',
                   current_schema(), others) INTO is_moving USING month, beyond;
    IF is_moving THEN
        EXECUTE format('WITH moved AS (DELETE FROM %1$I.%2$I WHERE retrieved_at >= $1 AND retrieved_at < $2 RETURNING *)
                        INSERT INTO %1$I.%3$I SELECT * FROM moved', current_schema(), others, part)
        USING month, beyond;
    END IF;
    EXECUTE format('ALTER TABLE %I.%I ENABLE ROW LEVEL SECURITY', current_schema(), part);
    EXECUTE format('ALTER TABLE %I.%I FORCE ROW LEVEL SECURITY', current_schema(), part);
    EXECUTE format('REVOKE ALL ON %I.%I FROM PUBLIC', current_schema(), part);
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %I.%I FOR VALUES FROM (%L) TO (%L)',
                   parent, current_schema(), part, month, beyond);
END
$$;

-- Make the months that there should be, and those of what fell into none; gives how many. One family a call, so that no
-- two locks wait for each other. Where there is nothing to do it takes no lock.
CREATE OR REPLACE FUNCTION ensure_months(family text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '2s' SET timezone = 'UTC' AS $$
DECLARE
    parent regclass := month_family(family);
    month timestamptz;
    made integer := 0;
BEGIN
    IF NOT EXISTS (SELECT FROM missing_months(parent)) AND NOT are_rows_outside(parent) THEN
        RETURN 0;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('retrieval months ' || current_schema(), 0));
    FOR month IN EXECUTE format(
        'SELECT missing_months($1)
         UNION
         (SELECT DISTINCT date_trunc(''month'', o.retrieved_at, ''UTC'') FROM %I.%I AS o
          EXCEPT SELECT m.month FROM months_of($1) AS m)
         ORDER BY 1', current_schema(), family || '_default') USING parent
    LOOP
        PERFORM make_month(parent, month);
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;

-- Remove the months of which everything is older than so many days; gives how many. For whoever may act as the definer
-- role: the months are every tenant's.
CREATE OR REPLACE FUNCTION drop_months(family text, days integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '2s' SET timezone = 'UTC' AS $$
DECLARE
    parent regclass := month_family(family);
    old record;
    dropped integer := 0;
BEGIN
    IF days < 1 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'retention is at least a day';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('retrieval months ' || current_schema(), 0));
    FOR old IN SELECT * FROM old_months(parent, days) LOOP
        EXECUTE format('DROP TABLE %s', old.part);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;

-- The months of which everything is older than so many days.
CREATE OR REPLACE FUNCTION old_months(parent regclass, days integer) RETURNS TABLE (month timestamptz, part regclass)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT m.month, m.part FROM months_of(parent) AS m
    WHERE (m.month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC' <= now() - make_interval(days => days)
$$;

-- Whether anything fell into no month.
CREATE OR REPLACE FUNCTION are_rows_outside(parent regclass) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    is_any boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I)', current_schema(),
                   (SELECT c.relname FROM pg_class c WHERE c.oid = parent) || '_default') INTO is_any;
    RETURN is_any;
END
$$;

-- The table of that name, if it is one that months part.
CREATE OR REPLACE FUNCTION month_family(family text) RETURNS regclass
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    IF family NOT IN ('retrievals', 'impressions') THEN
        RAISE invalid_parameter_value USING MESSAGE = format('%I is not parted by months', family);
    END IF;
    RETURN format('%I.%I', current_schema(), family)::regclass;
END
$$;

ALTER FUNCTION ensure_months(text) OWNER TO @definer@;
ALTER FUNCTION drop_months(text, integer) OWNER TO @definer@;
REVOKE ALL ON FUNCTION months_of(regclass), missing_months(regclass), make_month(regclass, timestamptz),
    ensure_months(text), drop_months(text, integer), old_months(regclass, integer), are_rows_outside(regclass),
    month_family(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION months_of(regclass), missing_months(regclass), make_month(regclass, timestamptz),
    old_months(regclass, integer), are_rows_outside(regclass), month_family(text) TO @definer@;
GRANT EXECUTE ON FUNCTION months_of(regclass), missing_months(regclass), old_months(regclass, integer),
    month_family(text), ensure_months(text) TO @app@;
