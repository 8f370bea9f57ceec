#!/bin/sh
# Runs once, on an empty database: if compose.citus.yaml names the nodes' network, configures this database as a node
# of a cluster and lets the other nodes log in from that network, as any role.
set -eu

[ -n "${CITUS_NETWORK:-}" ] || exit 0
psql --no-psqlrc --set=ON_ERROR_STOP=1 --username="${POSTGRES_USER:-postgres}" --dbname="$POSTGRES_DB" \
    --command "CREATE EXTENSION IF NOT EXISTS citus"
sed --in-place "1i host $POSTGRES_DB all $CITUS_NETWORK trust" "$PGDATA/pg_hba.conf"
