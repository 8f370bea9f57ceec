-- Undo sql/session_index.sql.
DROP INDEX retrievals_collection_id_session_idx;
