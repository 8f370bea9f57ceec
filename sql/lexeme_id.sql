-- A lexeme's number within a collection: 1 to 1e9, the dimensions of a sparsevec.
-- Collections number apart, so that a term's entry in the shared GIN index holds one collection's items
-- and a search costs the same beside ten tenants as beside ten thousand.
CREATE OR REPLACE FUNCTION lexeme_id(collection bigint, lexeme text) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN ((hashtextextended(lexeme, collection) & 9223372036854775807) % 1000000000 + 1)::integer;
REVOKE ALL ON FUNCTION lexeme_id(bigint, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lexeme_id(bigint, text) TO @app@, @definer@;
