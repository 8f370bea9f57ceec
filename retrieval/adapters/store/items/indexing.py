"""The indexes of a collection's items beside their texts: filterable attributes, and neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.types.json import Jsonb

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Connection, Database
from retrieval.domain.errors import Advice, InvalidRequestError
from retrieval.domain.items.attribute import AttributeType, Filterable
from retrieval.domain.items.collection import Neighbours

# The rows are locked in the order in which writers lock them.
_HOLD_ATTRIBUTES = """
    INSERT INTO collection_attributes AS known (collection_id, name, types)
    SELECT %(id)s, name, '{}' FROM unnest(%(names)s::text[]) AS name ORDER BY name COLLATE "C"
    ON CONFLICT (collection_id, name) DO UPDATE SET filterable = known.filterable
    RETURNING name, filterable
"""
_DECLARE = """
    UPDATE collection_attributes AS known SET filterable = declared.type
    FROM unnest(%(names)s::text[], %(types)s::text[]) AS declared (name, type)
    WHERE known.collection_id = %(id)s AND known.name = declared.name
"""
_UNDECLARE = (
    "UPDATE collection_attributes SET filterable = NULL WHERE collection_id = %(id)s AND name = ANY (%(names)s)"
)
_FORGET_UNSEEN = """
    DELETE FROM collection_attributes
    WHERE collection_id = %(id)s AND name = ANY (%(names)s) AND types = '{}' AND filterable IS NULL
"""
# Before the attributes' rows, as writers do.
_ALONE = "SELECT pg_advisory_xact_lock(writers_lock(%(id)s))"
_CLEAR = (
    "DELETE FROM attribute_texts WHERE collection_id = %(id)s AND name = ANY (%(names)s)",
    "DELETE FROM attribute_numbers WHERE collection_id = %(id)s AND name = ANY (%(names)s)",
    "DELETE FROM attribute_times WHERE collection_id = %(id)s AND name = ANY (%(names)s)",
)


async def declare(connection: Connection, collection_id: int, name: str, wanted: Filterable) -> None:
    """Make the attributes filterable, those of the stored items too; what is declared so already stays.

    ``name`` is the collection's. Writers wait meanwhile, and index by the declaration what they were writing. Raises
    ``InvalidRequestError`` for an attribute that is declared with another type.
    """
    known = await _hold(connection, collection_id, [attribute for attribute, _ in wanted])
    for attribute, kind in wanted:
        declared = known[attribute]
        if declared not in (None, kind):
            raise InvalidRequestError(
                f"attribute {attribute!r} of collection {name!r} is filterable as {declared}, not as {kind}"
            ).advising(Advice.DECLARE_ANEW, name=name, attribute=attribute, kind=kind)
    fresh = [(attribute, kind.value) for attribute, kind in wanted if known[attribute] is None]
    if not fresh:
        return
    names, types = zip(*fresh, strict=True)
    await _clear(connection, collection_id, list(names))
    await connection.execute(_DECLARE, {"id": collection_id, "names": list(names), "types": list(types)})
    await connection.execute("SELECT index_all_attributes(%s)", (collection_id,))


async def undeclare(connection: Connection, collection_id: int, names: Sequence[str]) -> None:
    """Take the attributes' declarations away; a name that is not declared changes nothing.

    Their indexes stay for those who still go by the declaration; ``clear_undeclared`` removes them a moment later.
    """
    each = sorted(set(names))
    await _hold(connection, collection_id, each)
    for statement in (_UNDECLARE, _FORGET_UNSEEN):
        await connection.execute(statement, {"id": collection_id, "names": each})


async def clear_undeclared(connection: Connection, collection_id: int, names: Sequence[str]) -> None:
    """Remove the indexes of those attributes that are not declared (again)."""
    known = await _hold(connection, collection_id, sorted(set(names)))
    gone = sorted(name for name, kind in known.items() if kind is None)
    await _clear(connection, collection_id, gone)
    await connection.execute(_FORGET_UNSEEN, {"id": collection_id, "names": gone})


async def _clear(connection: Connection, collection_id: int, names: Sequence[str]) -> None:
    for statement in _CLEAR:
        await connection.execute(statement, {"id": collection_id, "names": list(names)})


async def _hold(connection: Connection, collection_id: int, names: Sequence[str]) -> dict[str, AttributeType | None]:
    """Keep writers and other declarations out until the transaction ends; gives the declared types by name."""
    await connection.execute(_ALONE, {"id": collection_id})
    cursor = await connection.execute(_HOLD_ATTRIBUTES, {"id": collection_id, "names": list(names)})
    return {name: AttributeType(kind) if kind else None for name, kind in await cursor.fetchall()}


_IS_WALKING = Compiled(
    "SELECT EXISTS (SELECT FROM collection_statistics WHERE collection_id = %(id)s AND windowing_after IS NOT NULL)"
)


async def set_neighbours(connection: Connection, collection_id: int, neighbours: Neighbours | None) -> None:
    """Change the setting and find every item's place; ``reindex_windows`` then does the rest."""
    setting = None if neighbours is None else Jsonb(neighbours.as_dict())
    await connection.execute("SELECT set_neighbours(%s, %s::jsonb)", (collection_id, setting))


async def reindex_windows(connection: Connection, collection_id: int, step: int) -> int:
    """Index the next items by the setting as it is now; gives how many, 0 when all are."""
    cursor = await connection.execute("SELECT reindex_windows(%s, %s)", (collection_id, step))
    row = await cursor.fetchone()
    return int(row[0] or 0) if row else 0


async def are_windows_behind(database: Database, tenant_id: int, collection_id: int) -> bool:
    """Whether items are still to be indexed by the setting as it is now."""
    return bool((await database.read(tenant_id, _IS_WALKING.bind(id=collection_id)))[0][0])
