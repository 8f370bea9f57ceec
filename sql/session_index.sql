-- What a session was answered, for those that ask by it.
CREATE INDEX retrievals_collection_id_session_idx ON retrievals (collection_id, session) WHERE session <> '';
