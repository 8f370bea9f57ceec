-- Undo months.sql, but for the months that were made: what lies in them is kept.
DROP FUNCTION ensure_months(text);
DROP FUNCTION drop_months(text, integer);
DROP FUNCTION make_month(regclass, timestamptz);
DROP FUNCTION old_months(regclass, integer);
DROP FUNCTION missing_months(regclass);
DROP FUNCTION months_of(regclass);
DROP FUNCTION are_rows_outside(regclass);
DROP FUNCTION month_family(text);
DROP POLICY retrievals_default_definer ON retrievals_default;
DROP POLICY impressions_default_definer ON impressions_default;
ALTER TABLE retrievals OWNER TO CURRENT_USER;
ALTER TABLE retrievals_default OWNER TO CURRENT_USER;
ALTER TABLE impressions OWNER TO CURRENT_USER;
ALTER TABLE impressions_default OWNER TO CURRENT_USER;
GRANT SELECT ON retrievals, impressions TO @definer@;
REVOKE REFERENCES ON collections FROM @definer@;
