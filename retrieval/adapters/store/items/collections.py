"""Read and write stored collections: profiles with all versions, declared attributes, and neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Connection, Database
from retrieval.adapters.store.items.items import hold_writers
from retrieval.adapters.store.search.indexes import BEYOND, AnnIndex
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.checks import choices_hint, written
from retrieval.domain.errors import Advice, DatabaseError, InvalidRequestError, UnknownCollectionError
from retrieval.domain.items.attribute import AttributeType, Filterable
from retrieval.domain.items.collection import IndexKind, Neighbours
from retrieval.domain.items.embedding import EmbeddingSpace
from retrieval.domain.json_schema import AttributeSchema
from retrieval.domain.search.profile import Profile, StoredProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCollection:
    """The facts about a collection that a search needs."""

    collection_id: int
    name: str
    text_search_config: str
    profile: Profile
    profile_version: int
    space: StoredSpace | None
    """The active embedding space; None: lexical search only."""
    documents: int
    """Items that a search can find."""
    ann_index: AnnIndex | None
    """The HNSW index of its active space; None: every search is exact."""
    attributes: Mapping[str, tuple[str, ...]]
    """The JSON types seen, by attribute."""
    filterable: Filterable = ()
    """The attributes that have an index of their own."""
    model_version: int = 0
    """The published model of the learned reward; 0: there is none."""
    clustered_at: datetime | None = None
    """The time of the last clustering of its active space; None: it has no clusters."""
    neighbours: Neighbours | None = None
    """The neighbours that an item is indexed with; None: each item is indexed alone."""
    has_expiring: bool = False
    """Whether some of its items are memories that expire, or have expired."""
    profile_note: str = ""
    schema: AttributeSchema | None = None
    """The schema of the items' attributes; None: they can be anything."""
    index_kind: IndexKind = IndexKind.AUTO
    """The requested kind of HNSW index."""
    parts: int = 1
    """The number of parts that the index should have."""
    is_in_use: bool = True
    """Whether the space is the one that searches use: see ``collection_in_space``."""
    is_new: bool = False
    """Whether it was made by the call that returned it."""
    row: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    """The row from which it was read."""

    @property
    def space_id(self) -> int | None:
        """The number of the active embedding space; None: lexical search only."""
        return None if self.space is None else self.space.space_id


_FACTS = """
    SELECT c.collection_id, c.name, facts.*
    FROM collections AS c CROSS JOIN LATERAL collection_facts(c.collection_id, %(space_id)s::bigint) AS facts
    WHERE c.tenant_id = %(tenant_id)s
"""
_BY_NAME = Compiled(f"{_FACTS} AND c.name = %(name)s", {"space_id": None})
_BY_ID = Compiled(f"{_FACTS} AND c.collection_id = %(collection_id)s", {"space_id": None})
_ALL = Compiled(f"{_FACTS} ORDER BY c.name", {"space_id": None})
_PAGE = Compiled(f"{_FACTS} AND c.name > %(after)s ORDER BY c.name LIMIT %(limit)s", {"space_id": None})


async def find_collection(
    database: Database, tenant_id: int, name: str, known: StoredCollection | None = None
) -> StoredCollection | None:
    """The tenant's collection of that name, or None; ``known`` itself if nothing has changed."""
    rows = await database.read(tenant_id, _BY_NAME.bind(tenant_id=tenant_id, name=name))
    if not rows:
        return None
    return known if known is not None and rows[0] == known.row else _from_row(rows[0])


async def collection_by_id(at: CollectionPlace) -> StoredCollection | None:
    """The tenant's collection of that number, or None."""
    rows = await at.read(_BY_ID, tenant_id=at.tenant_id)
    return _from_row(rows[0]) if rows else None


async def collection_in_space(at: CollectionPlace, space_id: int) -> StoredCollection | None:
    """The collection in that space, even if its searches use another."""
    rows = await at.read(_BY_ID, tenant_id=at.tenant_id, space_id=space_id)
    return replace(_from_row(rows[0]), is_in_use=False) if rows else None


async def all_collections(database: Database, tenant_id: int) -> list[StoredCollection]:
    """The tenant's collections, by name."""
    return [_from_row(row) for row in await database.read(tenant_id, _ALL.bind(tenant_id=tenant_id))]


async def collections_page(database: Database, tenant_id: int, *, after: str, limit: int) -> list[StoredCollection]:
    """The tenant's next collections, by name: at most ``limit`` whose name sorts after ``after``."""
    statement = _PAGE.bind(tenant_id=tenant_id, after=after, limit=limit)
    return [_from_row(row) for row in await database.read(tenant_id, statement)]


async def find_tenant(database: Database, name: str) -> int | None:
    """The tenant's id, or None. In a read-only transaction, ``ensure_tenant`` fails instead of making a tenant."""
    statement = Compiled("SELECT ensure_tenant(%(name)s)", {"name": name})
    try:
        return int((await database.read_each(None, [statement], {"transaction_read_only": "on"}))[0][0][0])
    except DatabaseError as error:
        if isinstance(error.__cause__, psycopg.errors.ReadOnlySqlTransaction):
            return None
        raise


async def check_text_search_config(connection: Connection, config: str) -> None:
    """Raise ``InvalidRequestError`` for a configuration that the platform's transactions cannot name."""
    names = (
        "SELECT array_agg(cfgname::text ORDER BY cfgname) FROM pg_ts_config "
        "WHERE pg_ts_config_is_visible(oid) AND quote_ident(cfgname) = cfgname"
    )
    known = await connection.value(names)
    if config not in known:
        raise InvalidRequestError(
            f"there is no text search configuration {written(config)}; {choices_hint(config, known)}"
        )


async def create_collection(
    connection: Connection,
    tenant_id: int,
    name: str,
    *,
    language: str,
    profile: Profile,
    space_id: int | None,
    neighbours: Neighbours | None = None,
    schema: AttributeSchema | None = None,
    index_kind: IndexKind = IndexKind.AUTO,
) -> bool:
    """Make the collection with version 1 of its profile; False: another transaction made it first."""
    await check_text_search_config(connection, language)
    # Two statements, because the policy on profiles sees the collection only from the next statement on.
    cursor = await connection.execute(
        "INSERT INTO collections "
        "(tenant_id, name, text_search_config, space_id, neighbours, attribute_schema, index_kind) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (tenant_id, name) DO NOTHING RETURNING collection_id",
        (
            tenant_id, name, language, space_id, Jsonb(neighbours.as_dict()) if neighbours else None,
            Jsonb(schema.definition) if schema else None, index_kind.value,
        ),
    )  # fmt: skip
    row = await cursor.fetchone()
    if row is not None:
        await connection.execute(
            "INSERT INTO profiles (collection_id, version, definition, note) VALUES (%s, 1, %s, 'the default')",
            (row[0], Jsonb(profile.as_dict())),
        )
    return row is not None


async def set_space(connection: Connection, collection_id: int, space_id: int) -> bool:
    """Make the space the collection's active one, if it has none yet; returns whether it had none."""
    statement = "UPDATE collections SET space_id = %s WHERE collection_id = %s AND space_id IS NULL"
    return (await connection.execute(statement, (space_id, collection_id))).rowcount > 0


_SET_INDEX_KIND = Compiled("UPDATE collections SET index_kind = %(kind)s WHERE collection_id = %(collection_id)s")
_SET_PARTS = Compiled("UPDATE collections SET parts = %(parts)s WHERE collection_id = %(collection_id)s")


async def set_index_kind(at: CollectionPlace, kind: IndexKind) -> None:
    """Set the kind of HNSW index that the collection should have; ``keep_index`` builds it."""
    await at.write(_SET_INDEX_KIND, kind=kind.value)


async def set_parts(at: CollectionPlace, parts: int) -> None:
    """Set the number of parts that the collection's HNSW index should have; ``keep_index`` builds them."""
    await at.write(_SET_PARTS, parts=parts)


async def add_profile(connection: Connection, collection_id: int, profile: Profile, note: str) -> int:
    """Store the profile as a new version, not yet active; returns the version.

    Simultaneous callers get different versions. Raises ``UnknownCollectionError`` for a collection that was removed.
    """
    # A separate statement, because only a statement that begins after the lock sees the last caller's version.
    await _hold_versions(connection, collection_id)
    version = await connection.value(
        """
        INSERT INTO profiles (collection_id, version, definition, note)
        SELECT %(id)s, max(version) + 1, %(definition)s, %(note)s FROM profiles WHERE collection_id = %(id)s
        RETURNING version
        """,
        {"id": collection_id, "definition": Jsonb(profile.as_dict()), "note": note},
    )
    return int(version)


async def _hold_versions(connection: Connection, collection_id: int) -> None:
    cursor = await connection.execute("SELECT 1 FROM collections WHERE collection_id = %s FOR UPDATE", (collection_id,))
    if await cursor.fetchone() is None:
        raise UnknownCollectionError("the collection was removed; make it again to use it")


def _ann_index(facts: Mapping[str, Any] | None) -> AnnIndex | None:
    """The index with its measurements, or the defaults before they exist; None if there is no valid index."""
    if facts is None:
        return None
    if facts["is_quantised"] and "rows" not in facts:
        # The precision of a quantised index depends on the vectors, so no search uses it before it is measured.
        beyond = AnnIndex(is_quantised=True, effort_10=BEYOND, effort_100=BEYOND, effort_200=BEYOND)
        return replace(beyond, parts=facts["parts"])
    return AnnIndex(**{name: facts[name] for name in AnnIndex.__slots__ if name in facts})


_SPACE = EmbeddingSpace.__slots__
_COLUMNS = (
    *("collection_id", "name", "text_search_config", "profile", "profile_version", "documents", "space_id", *_SPACE),
    *("ann_index", "attributes", "filterable", "model_version", "clustered_at", "neighbours", "has_expiring"),
    *("profile_note", "schema", "index_kind", "parts"),
)


def _from_row(row: tuple[Any, ...]) -> StoredCollection:
    facts = dict(zip(_COLUMNS, row, strict=True))
    space_id, space = facts.pop("space_id"), {name: facts.pop(name) for name in _SPACE}
    parsed = {
        "profile": Profile.from_dict(facts["profile"]),
        "space": StoredSpace(space_id, EmbeddingSpace(**space)) if space_id else None,
        "ann_index": _ann_index(facts["ann_index"]),
        "attributes": {key: tuple(types) for key, types in facts["attributes"].items()},
        "filterable": tuple(sorted((key, AttributeType(kind)) for key, kind in facts["filterable"].items())),
        "neighbours": Neighbours(**facts["neighbours"]) if facts["neighbours"] else None,
        "schema": None if facts["schema"] is None else AttributeSchema.stored(facts["schema"]),
        "index_kind": IndexKind(facts["index_kind"]),
    }
    return StoredCollection(**facts | parsed, row=row)


_PROFILE_COLUMNS = "p.version, p.definition, p.note, p.created_at, p.version = c.profile_version"
_FROM_PROFILES = """
    FROM collections AS c JOIN profiles AS p ON p.collection_id = c.collection_id
    WHERE c.tenant_id = %(tenant_id)s AND c.collection_id = %(collection_id)s
"""
_ALL_PROFILES = Compiled(f"SELECT {_PROFILE_COLUMNS} {_FROM_PROFILES} ORDER BY p.version DESC LIMIT %(most)s")
_ONE = Compiled(
    f"SELECT {_PROFILE_COLUMNS} {_FROM_PROFILES} AND p.version = coalesce(%(version)s::integer, c.profile_version)"
)
# Two statements, because a cluster cannot change a table that every node has by one that it distributes.
_HAS = "SELECT FROM profiles WHERE collection_id = %(collection_id)s AND version = %(version)s"
_USE = "UPDATE collections SET profile_version = %(version)s WHERE collection_id = %(collection_id)s"


async def latest_profiles(at: CollectionPlace, most: int) -> list[StoredProfile]:
    """The versions, the newest first, at most ``most``."""
    return [_profile(row) for row in await at.read(_ALL_PROFILES, tenant_id=at.tenant_id, most=most)]


async def stored_profile(at: CollectionPlace, version: int | None) -> StoredProfile | None:
    """Read a version of the profile, the active one for None; None if there is no such version."""
    rows = await at.read(_ONE, tenant_id=at.tenant_id, version=version)
    return _profile(rows[0]) if rows else None


async def hold_profile(connection: Connection, tenant_id: int, collection_id: int) -> StoredProfile:
    """The version in use; until the transaction ends, no other caller stores or activates one.

    Raises ``UnknownCollectionError`` for a collection that was removed.
    """
    await _hold_versions(connection, collection_id)
    statement = _ONE.bind(tenant_id=tenant_id, collection_id=collection_id, version=None)
    [row] = await connection.rows(statement.text, statement.parameters)
    return _profile(row)


async def use_profile(connection: Connection, collection_id: int, version: int) -> bool:
    """Make that version the active one; returns whether it exists."""
    values = {"collection_id": collection_id, "version": version}
    if (await connection.execute(_HAS, values)).rowcount == 0:
        return False
    return (await connection.execute(_USE, values)).rowcount > 0


def _profile(row: tuple[Any, ...]) -> StoredProfile:
    version, definition, note, created_at, is_active = row
    profile = Profile.from_dict(definition)
    return StoredProfile(version=version, profile=profile, note=note, created_at=created_at, is_active=is_active)


# The rows are locked in the order in which writers lock them.
_HOLD_ATTRIBUTES = """
    INSERT INTO collection_attributes AS known (collection_id, name, types)
    SELECT %(id)s, name, '{}' FROM unnest(%(names)s::text[]) AS name ORDER BY name COLLATE "C"
    ON CONFLICT (collection_id, name) DO UPDATE SET filterable = known.filterable
    RETURNING name, CASE WHEN NOT known.is_dropped THEN known.filterable END
"""
_DECLARE = """
    UPDATE collection_attributes AS known SET filterable = declared.type, is_dropped = false
    FROM unnest(%(names)s::text[], %(types)s::text[]) AS declared (name, type)
    WHERE known.collection_id = %(id)s AND known.name = declared.name
"""
_DROP = """
    UPDATE collection_attributes SET is_dropped = true
    WHERE collection_id = %(id)s AND name = ANY (%(names)s) AND filterable IS NOT NULL
"""
_UNDECLARE = """
    UPDATE collection_attributes SET filterable = NULL, is_dropped = false
    WHERE collection_id = %(id)s AND name = ANY (%(names)s)
"""
_FORGET_UNSEEN = """
    DELETE FROM collection_attributes
    WHERE collection_id = %(id)s AND name = ANY (%(names)s) AND types = '{}' AND filterable IS NULL
"""
_CLEAR = "DELETE FROM attribute_values WHERE collection_id = %(id)s AND name = ANY (%(names)s)"


async def declare_attributes(connection: Connection, collection_id: int, name: str, declarations: Filterable) -> None:
    """Make the attributes filterable, also those of stored items; existing declarations stay.

    ``name`` is the collection's. Writers wait meanwhile, and then index their items by the declaration. Raises
    ``InvalidRequestError`` for an attribute that is declared with another type.
    """
    declared_types = await _hold(connection, collection_id, [attribute for attribute, _ in declarations])
    for attribute, kind in declarations:
        present = declared_types[attribute]
        if present not in (None, kind):
            raise InvalidRequestError(
                f"attribute {attribute!r} of collection {name!r} is filterable as {present}, not as {kind}"
            ).advising(Advice.DECLARE_ANEW, name=name, attribute=attribute, kind=kind)
    fresh = [(attribute, kind.value) for attribute, kind in declarations if declared_types[attribute] is None]
    if not fresh:
        return
    names, types = zip(*fresh, strict=True)
    await connection.execute(_CLEAR, {"id": collection_id, "names": list(names)})
    await connection.execute(_DECLARE, {"id": collection_id, "names": list(names), "types": list(types)})
    await connection.execute("SELECT index_all_attributes(%s)", (collection_id,))


async def undeclare_attributes(connection: Connection, collection_id: int, names: Sequence[str]) -> None:
    """Remove the attributes' declarations; a name that is not declared changes nothing.

    Their indexes are kept up to date for searches that still use the declaration, until ``clear_undeclared``.
    """
    distinct = sorted(set(names))
    await _hold(connection, collection_id, distinct)
    for statement in (_DROP, _FORGET_UNSEEN):
        await connection.execute(statement, {"id": collection_id, "names": distinct})


async def clear_undeclared(connection: Connection, collection_id: int, names: Sequence[str]) -> None:
    """Remove the indexes of the attributes, except those that are declared again."""
    declared_types = await _hold(connection, collection_id, sorted(set(names)))
    undeclared = sorted(name for name, kind in declared_types.items() if kind is None)
    for statement in (_CLEAR, _UNDECLARE, _FORGET_UNSEEN):
        await connection.execute(statement, {"id": collection_id, "names": undeclared})


async def _hold(connection: Connection, collection_id: int, names: Sequence[str]) -> dict[str, AttributeType | None]:
    """Lock out writers and other declarations until the transaction ends; returns the declared types by name."""
    # Before the attributes' rows, as writers do.
    await hold_writers(connection, collection_id)
    rows = await connection.rows(_HOLD_ATTRIBUTES, {"id": collection_id, "names": list(names)})
    return {name: AttributeType(kind) if kind else None for name, kind in rows}


_IS_WALKING = Compiled("""
    SELECT EXISTS (
        SELECT FROM collection_statistics WHERE collection_id = %(collection_id)s AND windowing_after IS NOT NULL
    )
""")


async def store_neighbours(connection: Connection, collection_id: int, neighbours: Neighbours | None) -> None:
    """Change the setting and compute every item's place; ``reindex_windows`` then indexes the items again."""
    setting = None if neighbours is None else Jsonb(neighbours.as_dict())
    await connection.execute("SELECT set_neighbours(%s, %s::jsonb)", (collection_id, setting))


async def reindex_windows(connection: Connection, collection_id: int, step: int) -> int:
    """Index the next items by the present setting; returns their number, 0 if all are indexed."""
    return await connection.value("SELECT reindex_windows(%s, %s)", (collection_id, step)) or 0


async def are_windows_behind(at: CollectionPlace) -> bool:
    """Whether some items are not yet indexed by the present setting."""
    return bool((await at.read(_IS_WALKING))[0][0])
