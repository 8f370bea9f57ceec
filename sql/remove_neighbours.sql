-- Removes what the revision of neighbours made.
DROP FUNCTION set_neighbours(bigint, jsonb), reindex_windows(bigint, integer), unmix_vectors(bigint, bigint, text[]),
    place_items(bigint, text[]), reindex_terms(bigint, text[]), window_terms(bigint, text[]),
    write_vectors(bigint, bigint), mix_vectors(bigint, bigint, jsonb, text[]),
    window_parts(bigint, text[], integer, integer),
    reached_from(bigint, text[], double precision[], text[], integer, integer),
    places_around(bigint, text, double precision, text, integer, integer),
    place_of(jsonb, timestamptz, jsonb), sequence_of(jsonb, jsonb);
DROP TABLE own_vectors, item_places;
ALTER TABLE collection_statistics DROP COLUMN windowing_after;
ALTER TABLE collections DROP COLUMN neighbours;
