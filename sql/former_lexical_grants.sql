-- What the two roles may do with the functions that revision 0004 replaces, once they are back.
REVOKE ALL ON FUNCTION analyze_text(bigint, regconfig, text), query_terms(bigint, text), lexical_query(bigint, text),
    lexical_search(bigint, text, integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION analyze_text(bigint, regconfig, text), query_terms(bigint, text), lexical_query(bigint, text),
    lexical_search(bigint, text, integer, integer) TO @app@;
GRANT EXECUTE ON FUNCTION analyze_text(bigint, regconfig, text), query_terms(bigint, text) TO @definer@;
