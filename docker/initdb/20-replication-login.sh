#!/bin/sh
# Runs once, on an empty database: creates the replicas' login if compose.replicas.yaml sets its password.
set -eu

[ -n "${REPLICATION_PASSWORD:-}" ] || exit 0
psql --no-psqlrc --set=ON_ERROR_STOP=1 --username="${POSTGRES_USER:-postgres}" --dbname="$POSTGRES_DB" <<'SQL'
\getenv password REPLICATION_PASSWORD
CREATE ROLE replication LOGIN REPLICATION PASSWORD :'password';
SQL
echo "host replication replication all scram-sha-256" >> "$PGDATA/pg_hba.conf"
