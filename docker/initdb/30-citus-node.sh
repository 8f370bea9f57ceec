#!/bin/sh
# Runs once, on an empty database: where compose.citus.yaml names the network of the nodes, makes this one a node of a cluster
# that the others may log in at, as any role, from there.
set -eu

[ -n "${CITUS_NETWORK:-}" ] || exit 0
psql --no-psqlrc --set=ON_ERROR_STOP=1 --username="${POSTGRES_USER:-postgres}" --dbname="$POSTGRES_DB" \
    --command "CREATE EXTENSION IF NOT EXISTS citus"
sed --in-place "1i host $POSTGRES_DB all $CITUS_NETWORK trust" "$PGDATA/pg_hba.conf"
