"""The embedded PostgreSQL: the platform's own server if none is configured."""
