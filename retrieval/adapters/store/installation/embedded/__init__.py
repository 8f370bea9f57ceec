"""The embedded PostgreSQL: a server of one's own where none is configured."""
