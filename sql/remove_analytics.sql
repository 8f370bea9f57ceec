-- Removes the figures and the analysts: their role goes too, unless another database of the server uses it.
DROP FUNCTION analytics_shown_items(text, timestamptz, timestamptz), analytics_rising_items(text, timestamptz, timestamptz),
    analytics_poor_queries(text, timestamptz, timestamptz), analytics_latency(text, timestamptz, timestamptz),
    analytics_exploration(text, timestamptz, timestamptz), analytics_positions(text, timestamptz, timestamptz),
    analytics_profiles(text, timestamptz, timestamptz), analytics_feedback(text, timestamptz, timestamptz);
DROP TYPE analytics_shown_items_row, analytics_rising_items_row, analytics_poor_queries_row, analytics_latency_row,
    analytics_exploration_row, analytics_positions_row, analytics_profiles_row, analytics_feedback_row;
DROP VIEW analytics_usage, analytics_unused_items, analytics_queries, analytics_losses, analytics_rated;
DROP FUNCTION wilson_low(bigint, bigint), wilson_high(bigint, bigint),
    standard_error(bigint, double precision, double precision);

DO $role$
DECLARE
    former CONSTANT name := @analyst_literal@;
BEGIN
    EXECUTE format('DROP OWNED BY %I', former);
    BEGIN
        EXECUTE format('DROP ROLE %I', former);
    EXCEPTION WHEN dependent_objects_still_exist THEN
        NULL; -- another database of this server uses it
    END;
END
$role$;
DROP FUNCTION analyst_tenant();
DROP TABLE analyst_logins;
