#!/bin/sh
# A streaming replica: copies the primary into an empty volume, then follows it.
# PGHOST, PGUSER and PGPASSWORD connect to the primary; the copy stores them.
set -eu

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    # An interrupted copy does not count: the folder gets its name when the copy is complete.
    rm -rf "$PGDATA.new"
    mkdir -p "$(dirname "$PGDATA")"
    pg_basebackup --pgdata="$PGDATA.new" --write-recovery-conf --checkpoint=fast
    rm -rf "$PGDATA"
    mv "$PGDATA.new" "$PGDATA"
fi
exec postgres "$@"
