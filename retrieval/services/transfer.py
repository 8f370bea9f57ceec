"""Exports a collection to a file with its vectors, profiles and records, and imports it for any tenant.

The first line of a file gives its format, the collection's settings, and the number of rows of each kind; each further
line is one row as JSON. An import is one transaction: it stores all of the collection or nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any, cast
from uuid import UUID

import numpy as np

from retrieval.adapters.files import name_file, unfinished
from retrieval.adapters.readers.lines import STANDARD_INPUT, read_lines
from retrieval.adapters.store.database import CollectionPlace, Connection, Database
from retrieval.adapters.store.deadline import WITHOUT_LIMITS
from retrieval.adapters.store.items import collections
from retrieval.adapters.store.items import transfer as store
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.items import ItemIsThereError, ItemWrite, write_items
from retrieval.adapters.store.search.terms import fold_statistics
from retrieval.adapters.store.search.vectors import StoredSpace, register_space
from retrieval.domain.checks import JSONTextError, checked_number, checked_whole, json_of, written
from retrieval.domain.errors import (
    ConfigurationError,
    ConflictError,
    InvalidRequestError,
    RetrievalError,
    UnknownCollectionError,
)
from retrieval.domain.items.attribute import checked_filterable
from retrieval.domain.items.collection import IndexKind, Neighbours, check_collection_name, checked_parts
from retrieval.domain.items.embedding import EmbeddingSpace, Vector, checked_vectors
from retrieval.domain.items.item import ITEM_FIELDS, Item
from retrieval.domain.json_schema import AttributeSchema
from retrieval.domain.records.retrieval_id import time_of
from retrieval.domain.search.profile import MAX_VERSION, Profile
from retrieval.domain.serialization import Serializable
from retrieval.engine.learning import checked_daily_cap, checked_half_life
from retrieval.learning.learned_model import LearnedModel

FORMAT, VERSION = "retrieval collection", 1

_ROWS, _BYTES = 200, 4 * 1024 * 1024
"""The most rows, and about the most bytes of a file, that are read or stored at a time."""
_MOST_BYTES_OF_ROW = 1024**3
"""PostgreSQL's limit of a value, and so of the row that an export wrote."""
_ROUNDING = 0.01
_MOST_HALF_LIVES = 1000
"""The most half-lives between the landmark of arms and an event: its weight is a power of two, below 2^1024."""
# The transaction is idle while lines are read or written.
_WITHOUT_LIMITS = WITHOUT_LIMITS.format(is_local="true").encode()

Advanced = Callable[[int, int], None]
"""Called with the number of rows done, and the number of all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved(Serializable):
    """A collection that was exported or imported."""

    collection: str
    file: str
    items: int
    vectors: int
    """The number of items that have their vector; a worker or another ingest embeds the others."""
    has_records: bool
    """Whether the rows include searches, feedback and learned models; without these, learning starts again."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """The number of rows of each kind."""


async def export_collection(
    database: Database,
    tenant_id: int,
    stored: StoredCollection,
    file: str,
    *,
    records: bool,
    now: datetime,
    has_embedder: bool,
    advance: Advanced | None = None,
) -> Moved:
    """Write the collection, as it is at one moment, into a new file. See ``Platform.export_collection``."""
    report = advance or (lambda _done, _total: None)
    names = [name for name, kind in store.KINDS.items() if records or not kind.is_record]
    await fold_statistics(CollectionPlace(database, tenant_id, stored.collection_id))
    done = vectors = 0
    with _new_file(file) as out:
        async with database.snapshot(tenant_id) as connection:
            await connection.execute(_WITHOUT_LIMITS)
            place = CollectionPlace(database, tenant_id, stored.collection_id, connection)
            seen = await collections.collection_by_id(place)
            if seen is None:
                raise UnknownCollectionError(f"collection {stored.name!r} was removed")
            stored, space_id = seen, seen.space_id
            rows = await store.count_rows(connection, stored.collection_id, space_id, names)
            created_at, weighed = await store.facts_of(connection, stored.collection_id)
            header = {
                "format": FORMAT,
                "version": VERSION,
                "exported_at": now.isoformat(),
                "has_records": records,
                "rows": rows,
                "collection": _settings_of(stored, created_at, weighed, has_embedder=has_embedder),
            }
            await asyncio.to_thread(_put, out, [json.dumps(header, ensure_ascii=False)])
            for name in names:
                async for page in store.lines_of(
                    connection, stored.collection_id, space_id, name, most=_ROWS, most_bytes=_BYTES
                ):
                    await asyncio.to_thread(_put, out, [line for line, _ in page])
                    vectors += sum(has_vector for _, has_vector in page)
                    done += len(page)
                    report(done, sum(rows.values()))
    return Moved(
        collection=stored.name, file=file, items=rows[store.ITEM], vectors=vectors, has_records=records, rows=rows
    )


def _settings_of(
    stored: StoredCollection, created_at: str, weighed: float | None, *, has_embedder: bool
) -> dict[str, Any]:
    space = stored.space
    return {
        "name": stored.name,
        "language": stored.text_search_config,
        "created_at": created_at,
        "profile_version": stored.profile_version,
        "filterable": {name: kind.value for name, kind in stored.filterable},
        "neighbours": stored.neighbours.as_dict() if stored.neighbours else None,
        "schema": dict(stored.schema.definition) if stored.schema else None,
        "index": stored.index_kind.value,
        "parts": stored.parts,
        "weighed_length": weighed,
        "space": None if space is None else {name: getattr(space.space, name) for name in EmbeddingSpace.__slots__},
        # The name of the space in learned models and records.
        "space_number": stored.space_id,
        "has_embedder": has_embedder,
    }


@contextlib.contextmanager
def _new_file(file: str) -> Iterator[IO[bytes]]:
    """The new file to write to, which gets its name when it is complete; ``-`` is standard output."""
    if file == STANDARD_INPUT:
        yield cast(IO[bytes], sys.stdout.buffer)
        sys.stdout.flush()
        return
    path = Path(file)
    try:
        if path.exists():
            raise _is_there(path)
        with unfinished(path) as folder:
            complete = folder / "complete"
            with os.fdopen(os.open(complete, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as raw:
                if path.suffix == ".gz":
                    with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                        yield cast(IO[bytes], packed)
                else:
                    yield raw
            name_file(complete, path)
    except FileExistsError:  # another program has got that name meanwhile
        raise _is_there(path) from None
    except OSError as error:
        advice = "make room, or name a file elsewhere"
        raise InvalidRequestError(f"cannot write {file}: {error.strerror}; {advice}") from error


def _is_there(path: Path) -> ConflictError:
    return ConflictError(f"{path} already exists; name a file that does not")


def _put(out: IO[bytes], lines: list[str]) -> None:
    out.write("".join(f"{line}\n" for line in lines).encode())


@dataclass(frozen=True, slots=True)
class _Header:
    """The first line of a file."""

    fields: Mapping[str, Any]
    """The settings of the collection."""
    rows: Mapping[str, int]
    has_records: bool
    exported_at: datetime
    space: EmbeddingSpace | None

    @property
    def schema(self) -> AttributeSchema | None:
        """The schema that every item fits."""
        return AttributeSchema.checked(self.fields["schema"])


async def import_collection(
    database: Database,
    tenant_id: int,
    file: str,
    *,
    name: str | None,
    has_embedder: Callable[[StoredSpace], bool],
    own_vectors: bool,
    advance: Advanced | None = None,
) -> Moved:
    """Create a collection from a file, in one transaction. See ``Platform.import_collection``."""
    report = advance or (lambda _done, _total: None)
    lines = _lines(file)
    header = await asyncio.to_thread(_header, file, lines)
    target_name = header.fields["name"] if name is None else name
    check_collection_name(target_name)
    space = None
    if header.space is not None:
        space = await register_space(database, header.space)
        if header.fields.get("has_embedder") and not own_vectors and not has_embedder(space):
            raise InvalidRequestError(
                f"the vectors are of {header.space.name}, and no embedder for it is configured, so that no words could "
                "be compared with them; configure it (RETRIEVAL_EMBEDDER), or import for vectors of your own "
                "(--own-vectors, own_vectors=True)"
            )
    space_id = space.space_id if space else None
    seen: Counter[str] = Counter()
    versions: set[int] = set()
    models: set[int] = set()  # whose vectors are of the collection's space
    vectors = 0
    async with database.transaction(tenant_id) as connection:
        await connection.execute(_WITHOUT_LIMITS)
        await collections.check_text_search_config(connection, header.fields["language"])
        collection_id = await store.add_collection(connection, tenant_id, target_name, header.fields, space_id)
        if filterable := checked_filterable(header.fields["filterable"]):
            await collections.declare_attributes(connection, collection_id, target_name, filterable)
        batches = _batches(file, lines)
        while batch := await asyncio.to_thread(next, batches, None):
            kind, first_line, rows = batch
            with _with_lines(file, first_line, len(rows)):
                if kind == store.ITEM:
                    vectors += await _store_items(connection, collection_id, space, header.schema, rows)
                else:
                    adapted = [_adapt(kind, row, header, space, models) for row in rows]
                    await store.store_rows(connection, (tenant_id, collection_id, space_id), kind, adapted)
            if kind == "profile":
                versions |= {row["version"] for row in rows}
            elif kind == "model":
                models |= {row["version"] for row in adapted if row["definition"]["space_id"] == space_id}
            seen[kind] += len(rows)
            report(seen.total(), sum(header.rows.values()))
        if dict(+seen) != {kind: number for kind, number in header.rows.items() if number}:
            raise InvalidRequestError(
                f"{file} has {seen.total():,} rows, and its first line says {sum(header.rows.values()):,}: it was cut "
                "off or changed; nothing was imported, export it again"
            )
        if header.fields["profile_version"] not in versions:
            raise InvalidRequestError(f"{file} has no profile of the version in use; nothing was imported")
        await fold_statistics(CollectionPlace(database, tenant_id, collection_id, connection))
    items, has_records, rows_of_file = seen[store.ITEM], header.has_records, dict(header.rows)
    return Moved(
        collection=target_name, file=file, items=items, vectors=vectors, has_records=has_records, rows=rows_of_file
    )


async def _store_items(
    connection: Connection,
    collection_id: int,
    space: StoredSpace | None,
    schema: AttributeSchema | None,
    rows: list[dict[str, Any]],
) -> int:
    """Store items with their vectors and times; returns the number of vectors."""
    for row in rows:
        store.check_row(store.ITEM, row)
    items = [_item(row) for row in rows]
    if len({item.item_id for item in items}) < len(items):
        raise InvalidRequestError("two items have the same id")
    if schema is not None:
        schema.check_each(items)
    vectors: dict[str, Vector] = {}
    with_vector = [row for row in rows if row.get("vector") is not None]
    if with_vector and space is not None:
        ids = [row["item_id"] for row in with_vector]
        units = checked_vectors([row["vector"] for row in with_vector], space.space, [*map(repr, ids)])
        # Vectors of length 1, up to rounding, stay as they are, so that the same bits are stored again.
        exact = np.asarray([row["vector"] for row in with_vector], dtype=np.float32)
        is_unit = np.abs(np.linalg.norm(exact, axis=1) - 1) < _ROUNDING
        vectors = dict(zip(ids, np.where(is_unit[:, None], exact, units), strict=True))
    write = ItemWrite(
        collection_id, items, space.space_id if space else None, vectors if space else None, only_new=True, goes_on=True
    )
    try:
        await write_items(connection, write)
    except ItemIsThereError as error:
        raise InvalidRequestError(f"item {written(error.item_id)} occurs twice") from error
    await store.date_items(connection, collection_id, rows)
    return len(vectors)


def _item(row: Mapping[str, Any]) -> Item:
    fields = {name: row[name] for name in ITEM_FIELDS}
    moment = fields["occurred_at"]
    return Item(**{**fields, "occurred_at": None if moment is None else datetime.fromisoformat(moment)})


_NAMES_SPACE = {"model": "definition", "retrieval": "request"}
"""The parts of rows that name an embedding space by its number."""


def _adapt(
    kind: str, row: dict[str, Any], header: _Header, space: StoredSpace | None, models: Collection[int]
) -> dict[str, Any]:
    """The row as this installation stores it, after the checks that the database cannot make."""
    store.check_row(kind, row)
    match kind:
        case "profile":
            Profile.from_dict(row["definition"])
        case "model" if row["is_published"]:  # a refused model is stored without its weights
            LearnedModel.from_dict(row["version"], row["definition"])
        case "retrieval":
            _check_search(row)
        case "centroid":
            _check_dimensions(kind, row["centroid"], space)
        case "rewarded_query" if row["version"] in models:
            _check_dimensions(kind, row["vector"], space)
        case "learning_state":
            _check_learning_state(row, header)
            if not header.has_records:
                return {**row, "model_version": 0, "model_is_chosen": False}
    if (part := _NAMES_SPACE.get(kind)) and row[part].get("space_id") is not None:
        # The space has another number here; a former space has none.
        is_active = row[part]["space_id"] == header.fields.get("space_number")
        number = space.space_id if space is not None and is_active else -1
        return {**row, part: {**row[part], "space_id": number}}
    return row


def _check_search(row: Mapping[str, Any]) -> None:
    if time_of(UUID(row["retrieval_id"])) != datetime.fromisoformat(row["retrieved_at"]):
        raise InvalidRequestError(f"search {row['retrieval_id']} is not of the time in its id")
    request = row["request"]
    if request.get("profile") is not None:
        Profile.from_dict(request["profile"])
    if request.get("limit") is not None:
        checked_whole("the limit of a search", request["limit"], 0, 2**31 - 1)
    for stage, milliseconds in row["timings_ms"].items():
        checked_number(f"the time of {written(stage, 40)}", milliseconds, sys.float_info.max)


def _check_learning_state(row: Mapping[str, Any], header: _Header) -> None:
    half_life = timedelta(days=checked_half_life(row["half_life_days"]))
    checked_daily_cap(row["daily_cap"])
    if (datetime.fromisoformat(row["landmark"]) - header.exported_at) / half_life > _MOST_HALF_LIVES:
        raise InvalidRequestError(f"landmark is {row['landmark']}, which is long after the export")


def _check_dimensions(kind: str, vector: Sequence[object], space: StoredSpace | None) -> None:
    if space is not None and len(vector) != space.space.dimensions:
        raise InvalidRequestError(
            f"the vector of kind {kind!r} has {len(vector)} dimensions and the embedding space {space.space.name} has "
            f"{space.space.dimensions}"
        )


@contextlib.contextmanager
def _with_lines(file: str, first: int, number: int) -> Iterator[None]:
    """Add the lines of the file to an error that their content raises."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, RetrievalError) as error:
        reason = f"{error!s:.300}"
        if not isinstance(error, RetrievalError):
            reason = f"a field is missing or of another kind ({written(error)})"
        elif not isinstance(error, InvalidRequestError | ConfigurationError):
            raise
        lines = f"lines {first} to {first + number - 1}" if number > 1 else f"line {first}"
        raise InvalidRequestError(f"{file}, {lines}: {reason}; nothing was imported") from error


def _lines(file: str) -> Iterator[tuple[int, dict[str, Any], int]]:
    """The lines' objects with their numbers and sizes. Raises ``InvalidRequestError`` for a line without one."""
    for line in read_lines(file, max_line_bytes=_MOST_BYTES_OF_ROW):
        try:
            value = None if line.too_long else json_of(line.data)
        except JSONTextError as error:
            raise InvalidRequestError(f"{file}, line {line.number}: {error}; {_ADVICE}") from None
        if not isinstance(value, dict):
            raise InvalidRequestError(f"{file}, line {line.number} is not a JSON object; {_ADVICE}")
        yield line.number, value, len(line.data)


_ADVICE = "give a file that an export wrote; items of other files are stored by ingest"

_FIELDS = (
    "name", "language", "created_at", "profile_version", "filterable", "neighbours", "schema", "index", "parts",
    "space", "weighed_length",
)  # fmt: skip


def _header(file: str, lines: Iterator[tuple[int, dict[str, Any], int]]) -> _Header:
    _, first, _ = next(lines, (0, {}, 0))
    if first.get("format") != FORMAT:
        raise InvalidRequestError(f"{file} is not an exported collection; {_ADVICE}")
    if first.get("version") != VERSION:
        raise InvalidRequestError(
            f"{file} is of version {written(first.get('version'), 20)} of the format, and this program reads "
            f"{VERSION}; install the program that wrote it, or export it again with this one"
        )
    with _with_lines(file, 1, 1):
        fields, rows = first["collection"], first["rows"]
        if not set(_FIELDS) <= set(fields) or not set(rows) <= set(store.KINDS):
            raise InvalidRequestError("a setting is missing, or a kind of row is not known")
        checked_whole("the version of the profile", fields["profile_version"], 1, MAX_VERSION)
        for kind, number in rows.items():
            checked_whole(f"the number of rows of kind {kind}", number, 0)
        if fields["weighed_length"] is not None:
            checked_number("the average length", fields["weighed_length"], sys.float_info.max)
        if fields["neighbours"] is not None:
            Neighbours(**fields["neighbours"])
        AttributeSchema.checked(fields["schema"])
        IndexKind(fields["index"])
        checked_parts(fields["parts"])
        checked_filterable(fields["filterable"])
        store.check_time("created_at", fields["created_at"])
        store.check_time("exported_at", first["exported_at"])
        space = None if fields["space"] is None else EmbeddingSpace(**fields["space"])
        exported_at = datetime.fromisoformat(first["exported_at"])
        return _Header(fields, rows, bool(first["has_records"]), exported_at, space)


def _batches(
    file: str, lines: Iterator[tuple[int, dict[str, Any], int]]
) -> Iterator[tuple[str, int, list[dict[str, Any]]]]:
    """The rows in parts of one kind each, bounded in number and size: the kind, the first line and the rows."""
    kind, first_line, rows, stored = "", 0, list[dict[str, Any]](), 0
    for number, value, size in lines:
        [(name, row), *others] = value.items() or [("", None)]
        if others or name not in store.KINDS or not isinstance(row, dict):
            raise InvalidRequestError(f"{file}, line {number} is not a row of a collection; {_ADVICE}")
        if name != kind or len(rows) >= _ROWS or stored > _BYTES:
            if rows:
                yield kind, first_line, rows
            kind, first_line, rows, stored = name, number, [], 0
        rows.append(row)
        stored += size
    if rows:
        yield kind, first_line, rows
