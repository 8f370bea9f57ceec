#!/bin/sh
# A streaming replica: copies the primary into an empty volume, and follows it from then on.
# PGHOST, PGUSER and PGPASSWORD say where the primary is; the copy remembers them.
set -eu

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    # A copy that was broken off is none: it gets its name when it is whole.
    rm -rf "$PGDATA.new"
    mkdir -p "$(dirname "$PGDATA")"
    pg_basebackup --pgdata="$PGDATA.new" --write-recovery-conf --checkpoint=fast
    rm -rf "$PGDATA"
    mv "$PGDATA.new" "$PGDATA"
fi
exec postgres "$@"
