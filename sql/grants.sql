-- What the two roles may do. PUBLIC may do nothing here.
REVOKE ALL ON ALL TABLES IN SCHEMA @schema@ FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @schema@ FROM PUBLIC;

GRANT SELECT ON tenants, embedding_spaces, alembic_version TO @app@;
GRANT SELECT, INSERT, UPDATE, DELETE ON collections, profiles, items, item_terms, term_statistics,
    collection_statistics, collection_attributes, embedding_cache TO @app@;
GRANT SELECT, INSERT ON tenants TO @definer@;
GRANT SELECT, INSERT ON embedding_spaces TO @definer@;
GRANT SELECT, REFERENCES ON items TO @definer@;
GRANT SELECT ON collections, item_terms, term_statistics, collection_statistics TO @definer@;

GRANT EXECUTE ON FUNCTION current_tenant(), ensure_tenant(text), lexeme_id(bigint, text),
    analyze_text(bigint, regconfig, text), bm25_weights(integer[], smallint[], integer, real),
    index_terms(bigint, text[]), refresh_weights(bigint, integer), query_terms(bigint, text),
    lexical_query(bigint, text), lexical_search(bigint, text, integer, integer),
    register_embedding_space(text, text, text, integer, text, text, text) TO @app@;
GRANT EXECUTE ON FUNCTION current_tenant(), lexeme_id(bigint, text), analyze_text(bigint, regconfig, text),
    query_terms(bigint, text) TO @definer@;
