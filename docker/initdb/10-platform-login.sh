#!/bin/sh
# Runs once, on an empty database: creates the login for the platform and its migrations.
# The login is not a superuser, because row-level security does not apply to superusers; it owns the database and may create roles.
set -eu

psql --no-psqlrc --set=ON_ERROR_STOP=1 --username="${POSTGRES_USER:-postgres}" --dbname="$POSTGRES_DB" <<'SQL'
\getenv password PLATFORM_PASSWORD
\getenv database POSTGRES_DB
CREATE EXTENSION IF NOT EXISTS vector;
CREATE ROLE retrieval LOGIN CREATEROLE PASSWORD :'password';
ALTER DATABASE :"database" OWNER TO retrieval;
SQL
