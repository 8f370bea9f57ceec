"""Read the tables of ``langchain-postgres``, page by page in the order of the ids, without that library.

``PGVector`` keeps every collection in one pair of tables; ``PGVectorStore`` has a table for each store, whose columns
can have any names.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.rows import TupleRow

from retrieval.adapters.store.installed_sql import in_template
from retrieval.adapters.store.round_trip import CONNECTION
from retrieval.adapters.store.translate import translated
from retrieval.domain.checks import choices_hint, shortened
from retrieval.domain.errors import ConfigurationError, DatabaseError, InvalidRequestError, NotFoundError

COLLECTIONS, EMBEDDINGS = "langchain_pg_collection", "langchain_pg_embedding"
"""The tables of ``PGVector``."""

_VECTORS = ("vector", "halfvec")
_COLUMNS = """
    SELECT a.attname, t.typname, format_type(a.atttypid, a.atttypmod),
           EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary
                   AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum)
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = to_regclass(%(table)s) AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LangChainStore:
    """The store to read: the ``PGVector`` collection ``name``, or the table of a ``PGVectorStore``.

    The default columns are the primary key, the only vector, ``content`` and ``langchain_metadata``. Raises
    ``InvalidRequestError`` unless exactly one of ``name`` and ``table`` is set.
    """

    name: str | None = None
    table: str | None = None
    schema: str = "public"
    id_column: str | None = None
    content_column: str | None = None
    embedding_column: str | None = None
    metadata_column: str | None = None
    """The column of JSON; every other column is metadata of its own name."""

    def __post_init__(self) -> None:
        if (self.name is None) == (self.table is None):
            raise InvalidRequestError("name a collection of PGVector, or the table of a PGVectorStore, one of the two")


@dataclass(frozen=True, slots=True, kw_only=True)
class LangChainDocument:
    """A document as the store has it."""

    id: str
    text: str
    metadata: Mapping[str, Any]
    vector: list[float] | None
    is_renamed: bool = False
    """Whether an earlier document has the same id, as in old tables of ``PGVector``; ``id`` is then the row's key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    table: sql.Composable
    key: str
    key_type: str
    id_expression: sql.Composable
    text: str
    vector: str | None
    json: str | None
    others: tuple[str, ...] = ()
    may_repeat_ids: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)


async def stored_documents(url: str, store: LangChainStore, *, page: int) -> AsyncGenerator[list[LangChainDocument]]:
    """The documents, by pages of ``page``. ``url`` may be SQLAlchemy's, with the name of a driver.

    Raises ``NotFoundError`` for a missing store, ``InvalidRequestError`` for a missing column, and subclasses of
    ``DatabaseError``.
    """
    plain = _without_driver(url)
    with _errors_of_source(plain):
        async with await AsyncConnection.connect(plain, autocommit=True, **CONNECTION) as connection:
            layout = await (_of_collection if store.name is not None else _of_table)(connection, store)
            statement, after, seen_ids = _statement(layout), None, set[str]()
            while True:
                cursor = connection.cursor(binary=True)
                await cursor.execute(statement, {"after": after, "page": page, **layout.parameters})
                rows = await cursor.fetchall()
                if rows:
                    yield [_document(row, seen_ids if layout.may_repeat_ids else set()) for row in rows]
                    after = rows[-1][0]
                if len(rows) < page:
                    return


@contextmanager
def _errors_of_source(url: str) -> Iterator[None]:
    """Raise the platform's errors for those of the database that is read."""
    try:
        with translated(url, "its URL"):
            yield
    except (ConfigurationError, DatabaseError) as error:
        raise type(error)(f"the source: {error}") from error


def _without_driver(url: str) -> str:
    scheme, separator, remainder = url.partition("://")
    if not separator:
        raise ConfigurationError(
            "the source is not a URL of PostgreSQL; write it as postgresql://user:password@host:5432/name"
        )
    return f"{scheme.partition('+')[0]}://{remainder}"


def _document(row: TupleRow, seen_ids: set[str]) -> LangChainDocument:
    """The document; if an earlier document has its id, with its row's key as the id."""
    key, id_, text, vector, json, others = row
    is_renamed = id_ in seen_ids
    seen_ids.add(id_)
    metadata = {name: value for name, value in (others or {}).items() if value is not None}
    if isinstance(json, Mapping):
        metadata |= json
    own_id = key if is_renamed else id_
    return LangChainDocument(id=own_id, text=text or "", metadata=metadata, vector=vector, is_renamed=is_renamed)


def _statement(layout: _Layout) -> sql.Composed:
    columns = [_identifier("d", name) for name in layout.others]
    others = sql.SQL("(SELECT to_jsonb(o) FROM (SELECT {}) AS o)").format(sql.SQL(", ").join(columns))
    return sql.SQL(
        "SELECT d.{key}::text, {shown}, d.{text}, {vector}, {json}, {others} FROM {table} AS d "
        "WHERE {within} AND (%(after)s::text IS NULL OR d.{key} > %(after)s::text::{type}) "
        "ORDER BY d.{key} LIMIT %(page)s"
    ).format(
        key=_identifier(layout.key),
        shown=layout.id_expression,
        text=_identifier(layout.text),
        vector=_expression(layout.vector, "::real[]"),
        json=_expression(layout.json, "::jsonb"),
        others=others if columns else sql.SQL("NULL::jsonb"),
        table=layout.table,
        within=sql.SQL("d.collection_id = %(collection)s::uuid" if "collection" in layout.parameters else "true"),
        # The catalogue's text of the type, which is SQL already.
        type=sql.SQL(layout.key_type),
    )


def _expression(column: str | None, cast: str) -> sql.Composable:
    if column is None:
        return sql.SQL("NULL")
    return _identifier("d", column) + sql.SQL(cast)


def _identifier(*parts: str) -> sql.Identifier:
    """The name in a statement with parameters."""
    return sql.Identifier(*map(in_template, parts))


async def _of_collection(connection: AsyncConnection[TupleRow], store: LangChainStore) -> _Layout:
    schema = sql.Identifier(store.schema)
    columns = await _columns(connection, store.schema, EMBEDDINGS)
    statement = sql.SQL("SELECT name, uuid::text FROM {}.{} ORDER BY name").format(schema, sql.Identifier(COLLECTIONS))
    names: dict[str, str] = dict(await (await connection.execute(statement)).fetchall())
    if store.name not in names:
        there = choices_hint(store.name, names, are_quoted=True)
        raise NotFoundError(f"PGVector has no collection {shortened(store.name)!r}; {there}")
    # Before release 0.0.7 the key was a separate number, and the caller's id could be missing.
    is_former = "id" not in columns
    key = "uuid" if is_former else "id"
    return _Layout(
        table=_identifier(store.schema, EMBEDDINGS), key=key, key_type=columns[key].type,
        id_expression=sql.SQL("coalesce(d.custom_id, d.uuid::text)" if is_former else "d.id"), text="document",
        vector="embedding", json="cmetadata", may_repeat_ids=is_former, parameters={"collection": names[store.name]},
    )  # fmt: skip


async def _of_table(connection: AsyncConnection[TupleRow], store: LangChainStore) -> _Layout:
    table = str(store.table)
    columns = await _columns(connection, store.schema, table)
    vectors = [name for name, column in columns.items() if column.kind in _VECTORS]
    key = store.id_column or next((name for name, column in columns.items() if column.is_key), "langchain_id")
    text = store.content_column or "content"
    vector = store.embedding_column or (vectors[0] if len(vectors) == 1 else "embedding")
    json = store.metadata_column or ("langchain_metadata" if "langchain_metadata" in columns else None)
    for option, name in (("id", key), ("content", text), ("embedding", vector), ("metadata", json)):
        if name is not None and name not in columns:
            raise InvalidRequestError(
                f"table {table!r} has no column {name!r}; name the one of its {option}; there are {', '.join(columns)}"
            )
    skipped = {key, text, vector, json}
    return _Layout(
        table=_identifier(store.schema, table),
        key=key,
        key_type=columns[key].type,
        id_expression=_identifier("d", key) + sql.SQL("::text"),
        text=text,
        vector=vector,
        json=json,
        others=tuple(
            name
            for name, column in columns.items()
            if name not in skipped and column.kind not in (*_VECTORS, "sparsevec", "tsvector", "bytea")
        ),
    )


@dataclass(frozen=True, slots=True)
class _Column:
    kind: str
    type: str
    is_key: bool


async def _columns(connection: AsyncConnection[TupleRow], schema: str, table: str) -> dict[str, _Column]:
    name = sql.Identifier(schema, table).as_string(connection)
    rows = await (await connection.execute(_COLUMNS, {"table": name})).fetchall()
    if not rows:
        raise NotFoundError(f"the source has no table {name}; name the schema if it is another")
    return {name: _Column(kind, type_, is_key) for name, kind, type_, is_key in rows}
