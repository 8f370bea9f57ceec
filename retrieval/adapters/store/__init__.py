"""Storage in PostgreSQL: connections, schema, statements."""
