"""The search effort that an HNSW index needs, as kept with it."""

from __future__ import annotations

from retrieval.adapters.store.database import Connection
from retrieval.adapters.store.dense_leg import MAX_EFFORT

MOST_EFFORT = 800
"""Above, a rebuilt index helps more than a longer walk."""

_RAISE = """
    UPDATE ann_indexes
    SET effort_10 = greatest(effort_10, least(%(most)s, ceil(effort_10 * 1.5)::integer)),
        effort_100 = greatest(effort_100, least(%(most)s, ceil(effort_100 * 1.5)::integer))
    WHERE collection_id = %(collection_id)s AND space_id = %(space_id)s
        AND (effort_10 < %(most)s OR effort_100 < %(most)s)
    RETURNING effort_10
"""


_GIVE_UP = """
    UPDATE ann_indexes SET effort_10 = %(beyond)s, effort_100 = %(beyond)s, effort_200 = %(beyond)s
    WHERE collection_id = %(collection_id)s AND space_id = %(space_id)s
"""


async def give_up_index(connection: Connection, collection_id: int, space_id: int) -> None:
    """Let every search compare all vectors: no effort makes this index find what it should."""
    values = {"collection_id": collection_id, "space_id": space_id, "beyond": MAX_EFFORT + 1}
    await connection.execute(_GIVE_UP, values)


async def raise_effort(connection: Connection, collection_id: int, space_id: int) -> int | None:
    """Let searches through the index go half as far again; gives the effort for ten results.

    None: nothing is known of the index, or its searches go as far already as makes sense.
    """
    values = {"collection_id": collection_id, "space_id": space_id, "most": MOST_EFFORT}
    row = await (await connection.execute(_RAISE, values)).fetchone()
    return None if row is None else int(row[0])
