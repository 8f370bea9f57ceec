-- Takes back what record_feedback.sql lets the definer's role do to tables that stay.
DROP POLICY feedback_definer_inserts ON feedback;
DROP POLICY feedback_definer_updates ON feedback;
DROP POLICY arms_definer_inserts ON arms;
DROP POLICY arms_definer_updates ON arms;
REVOKE INSERT, UPDATE ON feedback, arms FROM @definer@;
