#!/bin/sh
# Runs once, on an empty database: makes the login that the platform and its migrations use.
# It is no superuser, for whom row-level security would not hold; it owns the database and may make roles.
set -eu

psql --no-psqlrc --set=ON_ERROR_STOP=1 --username="${POSTGRES_USER:-postgres}" --dbname="$POSTGRES_DB" <<'SQL'
\getenv password PLATFORM_PASSWORD
\getenv database POSTGRES_DB
CREATE EXTENSION IF NOT EXISTS vector;
CREATE ROLE retrieval LOGIN CREATEROLE PASSWORD :'password';
ALTER DATABASE :"database" OWNER TO retrieval;
SQL
