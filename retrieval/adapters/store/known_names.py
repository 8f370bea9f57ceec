"""Names that stand in a database, read on one plain connection: for a shell that completes what is typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrieval.adapters.store.direct import DirectConnection

Names = list[tuple[str, str]]
"""Each with a line about it."""

_MOST = 200

_COLLECTIONS = """
    SELECT c.name, coalesce(t.documents, 0)::text || ' items'
    FROM collections c LEFT JOIN collection_statistics t ON t.collection_id = c.collection_id
    WHERE c.tenant_id = current_setting('retrieval.tenant')::bigint AND starts_with(c.name, %(begin)s)
    ORDER BY c.name LIMIT %(most)s
"""
_VIEWS = """
    SELECT substr(found.name, 11), found.about
    FROM (
        SELECT c.relname::text AS name, coalesce(obj_description(c.oid, 'pg_class'), '') AS about
        FROM pg_class c WHERE c.relkind = 'v' AND c.relnamespace = current_schema()::regnamespace
        UNION ALL
        SELECT p.proname::text, coalesce(obj_description(p.oid, 'pg_proc'), '')
        FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace
    ) AS found
    WHERE found.name ~ '^analytics_[a-z_]+$' AND starts_with(found.name, 'analytics_' || %(begin)s)
    ORDER BY found.name LIMIT %(most)s
"""
_PROFILES = """
    SELECT p.version::text, p.note FROM profiles p JOIN collections c ON c.collection_id = p.collection_id
    WHERE c.tenant_id = current_setting('retrieval.tenant')::bigint AND c.name = %(collection)s
        AND starts_with(p.version::text, %(begin)s)
    ORDER BY p.version DESC LIMIT %(most)s
"""


def collection_names(connection: DirectConnection, begin: str, *, seconds: float) -> Names:
    """The tenant's collections whose name begins so, with their size."""
    return _read(connection, _COLLECTIONS, {"begin": begin}, seconds)


def view_names(connection: DirectConnection, begin: str, *, seconds: float) -> Names:
    """The views of figures, with what each shows."""
    return _read(connection, _VIEWS, {"begin": begin}, seconds)


def profile_versions(connection: DirectConnection, collection: str, begin: str, *, seconds: float) -> Names:
    """The versions of a collection's profile, the newest first, with what was noted of each."""
    return _read(connection, _PROFILES, {"begin": begin, "collection": collection}, seconds)


def _read(connection: DirectConnection, statement: str, values: Mapping[str, Any], seconds: float) -> Names:
    rows = connection.run([(statement, {**values, "most": _MOST})], seconds=seconds)[0]
    return [(str(name), str(about)) for name, about in rows]
