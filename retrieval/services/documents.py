"""Documents stored in a collection, as chunks, which are items; ``stored_documents`` reads them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import Any

from retrieval.adapters.embedders.batching import measure_of
from retrieval.adapters.readers.documents import RawDocument, read_document
from retrieval.adapters.readers.folders import DocumentFile, FoundFiles, FoundFolder, find_documents
from retrieval.adapters.store.database import Connection, despite_deadlocks
from retrieval.adapters.store.items.items import Settled, hold_documents, remove_items
from retrieval.adapters.store.items.listing import all_rows
from retrieval.adapters.store.round_trip import Row
from retrieval.adapters.store.search.terms import refresh_weights
from retrieval.domain.checks import check_functions, is_storable, written
from retrieval.domain.errors import InvalidItemError, InvalidRequestError, MissingExtraError
from retrieval.domain.items.chunking import Chunking, chunk_items, chunks_of
from retrieval.domain.items.embedding import TokenMeasure
from retrieval.domain.items.item import Item, json_value
from retrieval.domain.json_schema import AttributeSchema
from retrieval.domain.search.filters import Filter, OneOf
from retrieval.domain.serialization import Serializable
from retrieval.engine.collection_handle import CollectionHandle, checks_existence
from retrieval.engine.request import checked_item_ids
from retrieval.services.add import AddReport, Writer, add_in_parts, repeated_among
from retrieval.services.change import ChangeReport, change
from retrieval.services.ingest import NO_VECTORS
from retrieval.services.items import finished, settle, writer_of
from retrieval.services.stored_documents import CHUNK_COLUMNS, DOCUMENT, NUMBER, chunks_where, measure_for

_READING = 1
"""The version of reading and chunking: after a change all documents are read again."""

_BATCH_FILES = 64
_BATCH_CHUNKS = 500
_BATCH_SECONDS = 3.0
"""A batch also ends when its files took this long to read, because the progress advances after a batch."""
_PAGE = 10_000
_MOST_LISTED = 1000
"""The most names that a report lists."""
_MOST_NAMED = 10
"""The most documents that an error names."""

_HASH_MARK = "@"
"""The part of a fingerprint before the hash of its folder."""

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
DocumentProgress = Callable[["DocumentsReport", float, int], None]
"""Called at first, after each batch, and while vectors are made.

The arguments are the report so far, the number of documents done, which includes a share of the current batch by its
vectors, and the number of all documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsReport(Serializable):
    """The outcome of storing documents."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    """Documents that cost nothing."""
    failed: tuple[tuple[str, str], ...] = ()
    """Documents and folders that could not be read, each with the reason; their stored chunks stay."""
    empty: tuple[str, ...] = ()
    """Documents without any text, such as scanned pages; they are not stored."""
    cleaned: int = 0
    """Documents from whose text control or format characters were removed."""
    vanished: tuple[str, ...] = ()
    """Stored documents that the folders no longer hold, at most 1000."""
    removed: int = 0
    """Documents removed because they vanished."""
    chunks_removed: int = 0
    """Chunks removed: of changed and of removed documents."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """The number of files left out, by their ending or by the reason."""
    chunks: AddReport = field(default_factory=AddReport)

    def __add__(self, other: DocumentsReport) -> DocumentsReport:
        names = [part.name for part in fields(self) if part.name != "skipped"]
        summed = {name: getattr(self, name) + getattr(other, name) for name in names}
        return DocumentsReport(**summed, skipped=dict(Counter(self.skipped) + Counter(other.skipped)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Further notes."""
        return self.chunks.notes

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        values = Serializable.as_dict(self)
        chunks = values["chunks"]
        chunks["removed"] = values.pop("chunks_removed")
        failed = [{"document": name, "reason": reason} for name, reason in self.failed]
        return {**values, "failed": failed, "notes": chunks.pop("notes")}


def raw_document(value: object) -> RawDocument:
    """The document of a mapping with ``id``, ``text`` and optionally ``title``, ``format`` and ``metadata``.

    Raises ``InvalidItemError``.
    """
    document = value if isinstance(value, RawDocument) else _document_of(value)
    if not is_storable(document.document_id):
        raise InvalidItemError(f"{written(document.document_id)} is not a document's id; an id is a text without NUL")
    return document


def _document_of(value: object) -> RawDocument:
    if not isinstance(value, Mapping):
        raise InvalidItemError(f"a document is a dictionary with 'id' and 'text', not {type(value).__name__}")
    unknown = sorted(set(map(str, value)) - {"id", "text", "title", "format", "metadata"})
    if unknown:
        raise InvalidItemError(
            f"a document has no {written(unknown[0])}; it has id, text, title, format and metadata, which holds the "
            "rest"
        )
    for name in ("id", "text"):
        if not isinstance(value.get(name), str):
            raise InvalidItemError(f"document {written(value.get('id'))}: {name!r} must be a text")
    metadata = value.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise InvalidItemError(f"document {written(value['id'])}: metadata must be an object")
    return RawDocument(
        document_id=value["id"],
        data=value["text"].encode(errors="replace"),
        format=str(value.get("format") or "markdown"),
        title=str(value.get("title") or ""),
        attributes=metadata,
    )


@dataclass(frozen=True, slots=True)
class _ReadDocument:
    document_id: str
    items: tuple[Item, ...] | None = None
    """The chunks of a document that has to be stored; None: it is unchanged, or cannot be read."""
    fault: str = ""
    is_cleaned: bool = False


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads documents in a thread, one after the other."""

    known: Mapping[str, str]
    """The fingerprints of the stored documents, by id."""
    chunking: Chunking
    measure: TokenMeasure
    schema: AttributeSchema | None
    """The schema of the chunks' attributes; None: any attributes fit."""

    def read(self, source: DocumentFile | RawDocument) -> _ReadDocument:
        """Read the document, and cut it into chunks if it differs from what is stored."""
        name = source.document_id
        try:
            raw = source.read() if isinstance(source, DocumentFile) else source
            fingerprint = self._fingerprint(raw)
            if isinstance(source, DocumentFile) and source.folder_hash:
                fingerprint += f"{_HASH_MARK}{source.folder_hash}"
            if self.known.get(name) == fingerprint:
                return _ReadDocument(name)
            document, is_cleaned = read_document(raw)
            chunks = chunks_of(document, self.chunking, self.measure.count_tokens)
            items = tuple(chunk_items(document, chunks, fingerprint))
            if self.schema is not None:
                self.schema.check_each(items)
        except (InvalidItemError, MissingExtraError) as error:
            return _ReadDocument(name, fault=str(error))
        return _ReadDocument(name, items, is_cleaned=is_cleaned)

    def _fingerprint(self, raw: RawDocument) -> str:
        attributes = json_value(raw.attributes, raw.document_id, "metadata")
        about = [_READING, raw.format, raw.title, attributes, self.chunking.max_tokens, self.chunking.overlap]
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
        digest.update(raw.data)
        return digest.hexdigest()[:32]


def check_some_fit(files: Sequence[DocumentFile], schema: Mapping[str, Any] | None, chunking: Chunking) -> None:
    """Raise ``InvalidRequestError`` if no document can be read and fits, so that no collection is made for them."""
    reading = _Reading({}, chunking, measure_of(None), AttributeSchema.checked(schema))
    faults: list[str] = []
    for file in files:
        document = reading.read(file)
        if not document.fault:
            return
        faults.append(f"{document.document_id}: {document.fault}")
    if faults:
        more = f"; and {len(faults) - _MOST_NAMED:,} more" if len(faults) > _MOST_NAMED else ""
        raise InvalidRequestError(f"no document can be stored; {'; '.join(faults[:_MOST_NAMED])}{more}")


@checks_existence
async def ingest_documents(
    handle: CollectionHandle,
    paths: Paths,
    chunking: Chunking,
    *,
    name: str | None,
    prune: bool,
    progress: DocumentProgress | None,
) -> DocumentsReport:
    """See ``Collection.ingest_documents``."""
    check_functions(progress=progress)
    _check_chunking(chunking)
    if not isinstance(paths, str | os.PathLike | Sequence) or isinstance(paths, bytes):
        raise InvalidRequestError(f"paths are names of files and folders, not {type(paths).__name__}")
    writer = await writer_of(handle)
    names = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files = await asyncio.to_thread(find_documents, names, name)
    known = await _fingerprints(writer, chunks_where(OneOf(NUMBER, (0,))))
    if name is None:
        _refuse_other_folders(files.folders, known)
    report = DocumentsReport(failed=files.unreadable, skipped=files.skipped)
    report += await _store(handle, writer, files.files, known, chunking, progress=progress)
    report += await _vanished_report(handle, writer, files, known, prune=prune, is_named=name is not None)
    return await _keep_indexed(handle, report)


@checks_existence
async def add_documents(
    handle: CollectionHandle, documents: Iterable[RawDocument | Mapping[str, Any]], chunking: Chunking
) -> DocumentsReport:
    """See ``Collection.add_documents``."""
    _check_chunking(chunking)
    if isinstance(documents, str | bytes | Mapping | RawDocument) or not isinstance(documents, Iterable):
        raise InvalidItemError("documents come in a list, such as [{'id': 'faq', 'text': '...'}]")
    writer = await writer_of(handle)
    raw_documents = list(map(raw_document, documents))
    raw = list({document.document_id: document for document in raw_documents}.values())
    ids = checked_item_ids([document.document_id for document in raw])
    known: dict[str, str] = {}
    for start in range(0, len(ids), _BATCH_CHUNKS):
        some = tuple(ids[start : start + _BATCH_CHUNKS])
        known |= await _fingerprints(writer, chunks_where(OneOf(NUMBER, (0,)), OneOf(DOCUMENT, some)))
    report = await _store(handle, writer, raw, known, chunking)
    repeated = repeated_among(document.document_id for document in raw_documents)
    return await _keep_indexed(handle, report + DocumentsReport(chunks=AddReport(notes=repeated.notes)))


@checks_existence
async def delete_documents(handle: CollectionHandle, document_ids: Sequence[str]) -> int:
    """See ``Collection.delete_documents``."""
    return (await _remove(handle, await writer_of(handle), checked_item_ids(document_ids)))[0]


def _check_chunking(chunking: Chunking) -> None:
    if not isinstance(chunking, Chunking):
        raise InvalidRequestError(f"chunking is a {type(chunking).__name__}; it must be a Chunking")


async def _keep_indexed(handle: CollectionHandle, report: DocumentsReport) -> DocumentsReport:
    chunks = report.chunks
    return replace(report, chunks=chunks + await finished(handle, chunks))


async def _store(
    handle: CollectionHandle,
    writer: Writer,
    sources: Sequence[DocumentFile | RawDocument],
    known: Mapping[str, str],
    chunking: Chunking,
    *,
    progress: DocumentProgress | None = None,
) -> DocumentsReport:
    measure = await measure_for(writer)
    reading = _Reading(known, chunking.within(measure.max_tokens), measure, writer.collection.schema)
    report, done, rest = DocumentsReport(), 0, iter(sources)
    batch: Sequence[_ReadDocument] = ()

    def show_progress(vectors: AddReport = NO_VECTORS) -> None:
        """Report the progress, with the vectors made for the batch so far."""
        if progress is not None:
            chunks = sum(len(document.items or ()) for document in batch)
            share = min(vectors.embedded + vectors.pending, chunks) / max(chunks, 1)
            progress(report + DocumentsReport(chunks=vectors), done + len(batch) * share, len(sources))

    show_progress()
    while batch := await asyncio.to_thread(_next_batch, reading, rest):
        follower = writer.followed(progress and show_progress)
        report += await _store_batch(handle, follower.after(report.chunks), batch, known)
        done += len(batch)
        show_progress()
    chunks = await writer.followed(progress and show_progress).embed_pending(report.chunks)
    if chunks.settled is not None:
        await refresh_weights(writer.place)
    return replace(report, chunks=chunks)


async def _store_batch(
    handle: CollectionHandle, writer: Writer, batch: Sequence[_ReadDocument], known: Mapping[str, str]
) -> DocumentsReport:
    fresh = {document.document_id: document.items for document in batch if document.items is not None}
    # Also of documents of an interrupted call: without their first chunk, which is stored last, they are not known.
    former = await _chunk_ids(writer, list(fresh))
    # A document's first chunk shows that all of it is stored and nothing else, so it is stored last: with the
    # removal of former chunks, if there are any.
    replacing = {items[0].item_id for name, items in fresh.items() if items and name in former}
    others = [item for items in fresh.values() for item in reversed(items) if item.item_id not in replacing]
    added = set[str]()
    chunks = await add_in_parts(replace(writer, on_added=added.update), others)
    replaced = await _replace(handle, writer, fresh) if fresh else ChangeReport()
    new = {name: items[0].item_id for name, items in fresh.items() if items and name not in known}
    # Another caller stored it meanwhile: this call did not add its first chunk.
    theirs = [name for name, first in new.items() if (first in former[name] if name in former else first not in added)]
    return DocumentsReport(
        added=len(new) - len(theirs),
        changed=sum(name in known for name in fresh),
        empty=tuple(name for name, items in fresh.items() if not items),
        unchanged=len(theirs) + sum(document.items is None and not document.fault for document in batch),
        failed=tuple((document.document_id, document.fault) for document in batch if document.fault),
        cleaned=sum(document.is_cleaned for document in batch),
        chunks_removed=replaced.removed,
        chunks=chunks + replaced.written,
    )


async def _replace(handle: CollectionHandle, writer: Writer, documents: Mapping[str, Sequence[Item]]) -> ChangeReport:
    """Make the stored chunks of the documents equal to these, also where another caller stores or removes some.

    Of callers that store a document at once, the last replaces what the others stored.
    """
    chunks = {item.item_id: item for items in documents.values() for item in items}

    async def stored(connection: Connection) -> list[str]:
        await hold_documents(connection, writer.collection.collection_id)
        former = await _chunk_ids(writer, list(documents), connection)
        return [*chunks, *(item_id for ids in former.values() for item_id in ids)]

    def decide(item_id: str, before: Item | None) -> Item | None:
        chunk = chunks.get(item_id)
        return before if before == chunk else chunk

    await handle.recorded()  # records cannot name removed items
    return await change(writer, stored, decide)


async def _remove(handle: CollectionHandle, writer: Writer, document_ids: Sequence[str]) -> tuple[int, int]:
    """Remove the documents; returns the numbers of those that were stored, and of their chunks."""

    async def remove() -> tuple[int, int, Settled | None]:
        async with writer.database.transaction(writer.tenant_id) as connection:
            await hold_documents(connection, writer.collection.collection_id)
            chunks = await _chunk_ids(writer, document_ids, connection)
            ids = sorted(item_id for of_document in chunks.values() for item_id in of_document)
            return len(chunks), *await remove_items(writer.place._replace(connection=connection), ids)

    await handle.recorded()  # records cannot name removed items
    documents, removed, settled = await despite_deadlocks(remove)
    await settle(handle, settled, removed)
    return documents, removed


async def _vanished_report(
    handle: CollectionHandle,
    writer: Writer,
    files: FoundFiles,
    known: Mapping[str, str],
    *,
    prune: bool,
    is_named: bool,
) -> DocumentsReport:
    present = {file.document_id for file in files.files}
    gone_by_folder = {folder: _removed_ids(folder, known, present, is_named=is_named) for folder in files.folders}
    report = DocumentsReport(
        vanished=tuple(sorted(name for gone in gone_by_folder.values() for name in gone)[:_MOST_LISTED])
    )
    if not prune or not any(gone_by_folder.values()):
        return report
    if files.unreadable:
        return report + DocumentsReport(chunks=AddReport(notes=(_NOT_LISTED,)))
    for folder, gone in gone_by_folder.items():
        if gone and not any(file.folder_hash == folder.folder_hash for file in files.files):
            report += DocumentsReport(failed=((folder.name, _HOLDS_NONE.format(f"{len(gone):,}")),))
            continue
        for start in range(0, len(gone), _BATCH_FILES):
            some = gone[start : start + _BATCH_FILES]
            removed, chunks_removed = await _remove(handle, writer, some)
            report += DocumentsReport(removed=removed, chunks_removed=chunks_removed)
    return report


async def _fingerprints(writer: Writer, condition: Filter) -> dict[str, str]:
    """The fingerprint of each document by id; only the folder's hash where two chunks claim to be its first."""
    known: dict[str, str] = {}
    async for _, attributes in _rows(writer, condition):
        name = str(attributes.get("document"))
        fingerprint = str(attributes.get("fingerprint"))
        known[name] = f"{_HASH_MARK}{_folder_hash_in(fingerprint)}" if name in known else fingerprint
    return known


async def _chunk_ids(
    writer: Writer, document_ids: Sequence[str], connection: Connection | None = None
) -> dict[str, list[str]]:
    """The item ids of the chunks of those documents that are stored, by document."""
    ids: dict[str, list[str]] = {}
    if document_ids:
        condition = chunks_where(OneOf(DOCUMENT, tuple(document_ids)))
        async for item_id, attributes in _rows(writer, condition, connection):
            ids.setdefault(str(attributes.get("document")), []).append(item_id)
    return ids


def _rows(writer: Writer, condition: Filter, connection: Connection | None = None) -> AsyncIterator[Row]:
    place = writer.database, writer.tenant_id, writer.collection
    return all_rows(*place, condition, CHUNK_COLUMNS, at_a_time=_PAGE, connection=connection)


_NOT_LISTED = "nothing was pruned, because a folder could not be listed"
_HOLDS_NONE = (
    "the folder holds no document, as where a disk is not mounted, so nothing of it was pruned; delete_documents "
    "removes the {0} stored ones"
)
_OTHER_FOLDER = (
    "the documents {0}/… of the collection are of another folder of that name, or of this one before it moved; "
    "if {1} is that folder, give --name {0} (name={0!r}), from then on each time; to store it beside the other, "
    "give it another --name"
)


def _folder_hash_in(fingerprint: str) -> str:
    """The hash of the folder that a document was found in; empty for a document of no folder."""
    return fingerprint.partition(_HASH_MARK)[2]


def _refuse_other_folders(folders: Iterable[FoundFolder], known: Mapping[str, str]) -> None:
    """Raise ``InvalidRequestError`` for a folder's name that another folder's documents have."""
    for folder in folders:
        for name, fingerprint in known.items():
            if name.startswith(f"{folder.name}/") and _folder_hash_in(fingerprint) not in ("", folder.folder_hash):
                raise InvalidRequestError(_OTHER_FOLDER.format(folder.name, folder.path))


def _removed_ids(
    folder: FoundFolder, known: Mapping[str, str], present: Collection[str], *, is_named: bool
) -> list[str]:
    """The stored documents that the folder no longer holds; a folder with a given name has all under that name."""
    return sorted(
        name
        for name, fingerprint in known.items()
        if name not in present
        and (folder_hash := _folder_hash_in(fingerprint))
        and (name.startswith(f"{folder.name}/") if is_named else folder_hash == folder.folder_hash)
    )


def _next_batch(reading: _Reading, sources: Iterator[DocumentFile | RawDocument]) -> list[_ReadDocument]:
    batch, chunks, until = [], 0, time.monotonic() + _BATCH_SECONDS
    for source in islice(sources, _BATCH_FILES):
        batch.append(document := reading.read(source))
        chunks += len(document.items or ())
        if chunks >= _BATCH_CHUNKS or time.monotonic() >= until:
            break
    return batch
