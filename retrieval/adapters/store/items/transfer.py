"""Read the rows of a collection as lines of JSON, in one snapshot, and store them in another collection.

Data derived from the items (terms, statistics, filters, facets, indexes) is left out: storing the items makes it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb
from sqlalchemy import Date, DateTime, Double
from sqlalchemy.dialects.postgresql import JSONB

from retrieval.adapters.store.database import Connection
from retrieval.adapters.store.search.vectors import table_of
from retrieval.adapters.store.tables import TABLES
from retrieval.domain.checks import checked_time, is_finite, written
from retrieval.domain.errors import ConflictError, InvalidRequestError


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of row: its table and columns."""

    table: str
    order: tuple[str, ...]
    """The rest of its primary key after the collection's number."""
    vector: str = ""
    """Its column of vectors; empty: it has none."""
    of_space: bool = False
    """Whether rows name their embedding space; only rows of the active space are read."""
    of_tenant: bool = False
    """Whether rows are about an actor of the tenant; only those of actors with feedback in the collection are read."""
    is_record: bool = False
    """Whether the kind belongs to searches, feedback and models, not to the collection's content."""


ITEM = "item"

KINDS: Mapping[str, Kind] = {
    "profile": Kind("profiles", ("version",)),
    "learning_state": Kind("learning_states", ()),
    ITEM: Kind("items", ("item_id",)),
    "memory": Kind("memories", ("item_id",)),
    "memory_link": Kind("memory_links", ("item_id", "entity_type", "entity_id")),
    "retrieval": Kind("retrievals", ("retrieved_at", "retrieval_id"), vector="vector", is_record=True),
    "loss": Kind("recording_losses", ("day", "reason"), is_record=True),
    "feedback": Kind("feedback", ("item_id", "feedback_key"), is_record=True),
    "arm": Kind("arms", ("item_id", "context"), is_record=True),
    "arm_baseline": Kind("arm_baselines", ("item_id", "context"), is_record=True),
    "quarantine": Kind("quarantines", ("actor",), of_tenant=True, is_record=True),
    "model": Kind("learned_models", ("version",), is_record=True),
    "rewarded_query": Kind("rewarded_queries", ("item_id", "version"), vector="vector", is_record=True),
    "centroid": Kind("cluster_centroids", ("cluster",), vector="centroid", of_space=True, is_record=True),
    "item_cluster": Kind("item_clusters", ("item_id",), is_record=True),
}
"""Every kind by its name in a file, each after the kinds that it refers to."""

# An item's own vector, not the one in the space's table, which is mixed with its neighbours'. Vectors of former texts
# are left out.
_ITEMS = """
    SELECT jsonb_build_object('item',
        to_jsonb(r) - '{{collection_id,facets,text_hash,content_hash}}'::text[]
        || jsonb_build_object('content_hash', encode(r.content_hash, 'hex'), 'vector', {vector}))::text,
        {vector} IS NOT NULL
    FROM items AS r {joins}
    WHERE r.collection_id = {collection} ORDER BY r.item_id
"""
_VECTORS = """
    LEFT JOIN own_vectors AS own ON own.collection_id = {collection} AND own.item_id = r.item_id
        AND own.space_id = {space} AND own.content_hash = r.text_hash
    LEFT JOIN {table} AS known ON known.collection_id = {collection} AND known.item_id = r.item_id
        AND known.content_hash = r.text_hash
"""
_ROWS = """
    SELECT jsonb_build_object({name},
        to_jsonb(r) - '{{collection_id,space_id,tenant_id}}'::text[] || {vector})::text, false
    FROM {table} AS r WHERE {own} ORDER BY {order}
"""
_FACTS = """
    SELECT to_jsonb(c.created_at) #>> '{}', total.weighed_length
    FROM collections AS c LEFT JOIN collection_statistics AS total ON total.collection_id = c.collection_id
    WHERE c.collection_id = %s
"""
_ADD = """
    INSERT INTO collections (
        tenant_id, name, text_search_config, space_id, profile_version, created_at, neighbours, attribute_schema,
        index_kind, parts
    )
    VALUES (%s, %s, %s, %s, %s, %s::timestamptz, %s, %s, %s, %s)
    ON CONFLICT (tenant_id, name) DO NOTHING RETURNING collection_id
"""
# Items keep the average length of their weights, so that their scores are the same.
_WEIGH = """
    INSERT INTO collection_statistics (collection_id, documents, total_length, weighed_length) VALUES (%s, 0, 0, %s)
"""
_STORE = """
    INSERT INTO {table}
    SELECT made.* FROM jsonb_array_elements(%s) AS given (fields)
    CROSS JOIN LATERAL jsonb_populate_record(NULL::{table}, given.fields || %s) AS made
    {unless}
    RETURNING 1
"""
_DATE_ITEMS = """
    UPDATE items AS item
    SET created_at = given.created_at, updated_at = given.updated_at, content_hash = decode(given.content_hash, 'hex')
    FROM jsonb_to_recordset(%s)
        AS given (item_id text, created_at timestamptz, updated_at timestamptz, content_hash text)
    WHERE item.collection_id = %s AND item.item_id = given.item_id COLLATE "C"
"""
_DATE_TAGS = """
    UPDATE item_tags AS tag SET created_at = item.created_at
    FROM items AS item
    WHERE tag.collection_id = %s AND item.collection_id = %s AND tag.item_id = ANY(%s) AND item.item_id = tag.item_id
"""
_RECORDED = """
    SELECT other.name, past.retrieval_id
    FROM jsonb_to_recordset(%s) AS given (retrieval_id uuid, retrieved_at timestamptz)
    CROSS JOIN collections AS other
    JOIN retrievals AS past ON past.collection_id = other.collection_id AND past.retrieved_at = given.retrieved_at
        AND past.retrieval_id = given.retrieval_id
    WHERE other.tenant_id = %s
    LIMIT 1
"""


def check_row(name: str, row: Mapping[str, Any]) -> None:
    """Raise ``InvalidRequestError`` for a value that the database stores and no program could read back or use.

    The database itself refuses missing values, and those that its columns cannot hold.
    """
    for column in TABLES[KINDS[name].table].columns:
        check = _CHECKS.get(type(column.type))
        if check is not None and row.get(column.name) is not None:
            check(column.name, row[column.name])


def check_time(name: str, value: object) -> None:
    """Raise ``InvalidRequestError`` for anything but the text of a time that Python can read.

    A time that an application has given may be any such time; one of the platform's clock is of the years 1970 to 2999,
    because powers of two grow with the distance between two of them.
    """
    time = checked_time(name, _parsed(datetime.fromisoformat, value) or value)
    if name not in _GIVEN_TIMES and not 1970 <= time.astimezone(UTC).year <= 2999:
        raise InvalidRequestError(f"{name} is {value}; it must be a time of the years 1970 to 2999")


_GIVEN_TIMES = {"occurred_at", "happened_at", "expires_at", "last_used_at"}
"""The columns of times that an application gives, or that are the latest of those."""


def _must_be(what: str, is_right: Callable[[str, object], bool]) -> Callable[[str, object], None]:
    def check(name: str, value: object) -> None:
        if not is_right(name, value):
            raise InvalidRequestError(f"{name} is {written(value)}; it must be {what}")

    return check


def _may_be_json(name: str, value: object) -> bool:
    return isinstance(value, dict) or (name == "shown_signals" and isinstance(value, list))


def _parsed(parse: Callable[[str], Any], value: object) -> Any:
    try:
        return parse(value) if isinstance(value, str) else None
    except ValueError:
        return None


_CHECKS: Mapping[type, Callable[[str, object], None]] = {
    DateTime: check_time,
    Date: _must_be("a date, such as 2026-05-31", lambda _, value: _parsed(date.fromisoformat, value) is not None),
    Double: _must_be("a finite number", lambda _, value: is_finite(value)),
    JSONB: _must_be("an object", _may_be_json),
}
"""The check of a value by the type of its column."""


async def count_rows(
    connection: Connection, collection_id: int, space_id: int | None, names: Iterable[str]
) -> dict[str, int]:
    """The number of the collection's rows of each kind."""
    counts = {}
    for name in names:
        own = _own_rows(KINDS[name], collection_id, space_id)
        query = sql.SQL("SELECT count(*) FROM {} AS r WHERE {}").format(sql.Identifier(KINDS[name].table), own)
        counts[name] = int(await connection.value(query))
    return counts


async def facts_of(connection: Connection, collection_id: int) -> tuple[str, float | None]:
    """Return the time when the collection was made, and the average length that its items' weights use."""
    created_at, weighed_length = await (await connection.execute(_FACTS, (collection_id,))).fetchone() or ("", None)
    return created_at, weighed_length


async def lines_of(
    connection: Connection, collection_id: int, space_id: int | None, name: str, *, most: int, most_bytes: int
) -> AsyncIterator[list[tuple[str, bool]]]:
    """The collection's rows of a kind as lines of JSON in the order of their keys, at most ``most`` at a time.

    Fewer are read at a time if the rows before them were larger than ``most_bytes`` together. Each line comes with a
    flag: whether it is an item with a vector.
    """
    kind = KINDS[name]
    constants = {"collection": sql.Literal(collection_id), "space": sql.Literal(space_id)}
    vector: sql.Composable
    if name == ITEM:
        vector, joins = sql.SQL("NULL"), sql.SQL("").format()
        if space_id is not None:
            vector = sql.SQL("coalesce(own.vector, known.vector)::text::jsonb")
            joins = sql.SQL(_VECTORS).format(table=sql.Identifier(table_of(space_id)), **constants)
        query = sql.SQL(_ITEMS).format(vector=vector, joins=joins, **constants)
    else:
        vector = sql.SQL("'{{}}'::jsonb").format()
        if kind.vector:
            vector = sql.SQL("jsonb_build_object({}, r.{}::text::jsonb)").format(
                sql.Literal(kind.vector), sql.Identifier(kind.vector)
            )
        query = sql.SQL(_ROWS).format(
            name=sql.Literal(name),
            table=sql.Identifier(kind.table),
            vector=vector,
            own=_own_rows(kind, collection_id, space_id),
            order=sql.SQL(", ").join(sql.Identifier("r", column) for column in (kind.order or ("collection_id",))),
        )
    async with connection.cursor(name="exported") as cursor:
        await cursor.execute(query)
        number = 1
        while rows := await cursor.fetchmany(number):
            yield rows
            fitting = len(rows) * most_bytes // sum(len(line) for line, _ in rows)
            number = max(1, min(2 * number, fitting, most))


async def add_collection(
    connection: Connection, tenant_id: int, name: str, fields: Mapping[str, Any], space_id: int | None
) -> int:
    """Make the collection with a file's settings; returns its number. Raises ``ConflictError`` if it exists."""
    values = (
        tenant_id, name, fields["language"], space_id, fields["profile_version"], fields["created_at"],
        Jsonb(fields["neighbours"]) if fields["neighbours"] else None,
        Jsonb(fields["schema"]) if fields["schema"] else None, fields["index"], fields["parts"],
    )  # fmt: skip
    row = await (await connection.execute(_ADD, values)).fetchone()
    if row is None:
        raise ConflictError(f"collection {written(name)} already exists; import under another name, or remove it first")
    if fields["weighed_length"] is not None:
        await connection.execute(_WEIGH, (row[0], fields["weighed_length"]))
    return int(row[0])


async def store_rows(
    connection: Connection, owner: tuple[int, int, int | None], name: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Store rows of a kind other than items; ``owner`` is the tenant, the collection and its space.

    Raises ``ConflictError`` for a search that the tenant has recorded already, ``InvalidRequestError`` for values that
    the database refuses.
    """
    tenant_id, collection_id, space_id = owner
    kind = KINDS[name]
    if name == "retrieval":
        recorded = await (await _execute(connection, name, _RECORDED, (Jsonb(list(rows)), tenant_id))).fetchone()
        if recorded is not None:
            raise ConflictError(
                f"the tenant has recorded search {recorded[1]} already, in collection {written(recorded[0])}; "
                "import the file for another tenant, or one exported without records (--no-records; records=False)"
            )
    constants = {"collection_id": collection_id, "space_id": space_id, "tenant_id": tenant_id}
    unless = sql.SQL("ON CONFLICT DO NOTHING" if kind.of_tenant else "")
    query = sql.SQL(_STORE).format(table=sql.Identifier(kind.table), unless=unless)
    await _execute(connection, name, query, (Jsonb(list(rows)), Jsonb(constants)))


async def date_items(connection: Connection, collection_id: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Set the original times and hashes of items that were just stored."""
    names = ("item_id", "created_at", "updated_at", "content_hash")
    fields = [{name: row.get(name) for name in names} for row in rows]
    await _execute(connection, ITEM, _DATE_ITEMS, (Jsonb(fields), collection_id))
    item_ids = [row["item_id"] for row in rows]
    await _execute(connection, ITEM, _DATE_TAGS, (collection_id, collection_id, item_ids))


async def _execute(
    connection: Connection, name: str, query: str | sql.Composed, values: tuple[Any, ...]
) -> psycopg.AsyncCursor[Any]:
    try:
        return await connection.execute(query.encode() if isinstance(query, str) else query, values)
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.UndefinedFunction) as error:
        why = f"{error.diag.message_primary:.200}"
        raise InvalidRequestError(f"the database refuses a row of kind {name!r} of the file: {why}") from error


def _own_rows(kind: Kind, collection_id: int, space_id: int | None) -> sql.Composable:
    collection = sql.Literal(collection_id)
    if kind.of_tenant:
        # The tenant's rows are the only ones that a transaction sees.
        heard = sql.SQL("SELECT f.actor FROM feedback AS f WHERE f.collection_id = {}").format(collection)
        return sql.SQL("r.actor IN ({})").format(heard)
    own = sql.SQL("r.collection_id = {}").format(collection)
    return sql.SQL("{} AND r.space_id = {}").format(own, sql.Literal(space_id)) if kind.of_space else own
