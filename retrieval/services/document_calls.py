"""The calls about a collection's documents: stored as chunks, which are items, and read as passages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from retrieval.domain.checks import check_flags, check_functions
from retrieval.domain.errors import InvalidLimitError, InvalidRequestError
from retrieval.domain.items.chunking import Chunking
from retrieval.engine.collection_handle import CollectionHandle, told_if_gone
from retrieval.services.documents import DocumentProgress, Documents, DocumentsReport, Paths
from retrieval.services.items import delete, keep_indexed, writer_of

if TYPE_CHECKING:
    from retrieval.adapters.readers.documents import RawDocument
    from retrieval.domain.items.passages import Passages
    from retrieval.domain.search.hit import SearchResult

MAX_AROUND = 10
"""The most chunks on one side of a hit that a passage takes in."""

MAX_PASSAGE_TOKENS = 10_000_000


@told_if_gone
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
    check_flags(prune=prune)
    check_functions(progress=progress)
    documents = await _documents(handle, chunking)
    report = await documents.ingest(paths, chunking, name=name, prune=prune, progress=progress)
    return await _indexed(handle, report)


@told_if_gone
async def add_documents(
    handle: CollectionHandle, documents: Iterable[RawDocument | Mapping[str, Any]], chunking: Chunking
) -> DocumentsReport:
    """See ``Collection.add_documents``."""
    return await _indexed(handle, await (await _documents(handle, chunking)).add(documents, chunking))


@told_if_gone
async def delete_documents(handle: CollectionHandle, document_ids: Sequence[str]) -> int:
    """See ``Collection.delete_documents``."""
    return await (await _documents(handle)).remove(document_ids)


async def passages(
    handle: CollectionHandle,
    result: SearchResult,
    *,
    max_tokens: int,
    around: int,
    count_tokens: Callable[[str], int] | None,
) -> Passages:
    """The passages of a search's hits. See ``Collection.passages``."""
    documents = await _documents(handle)
    return await documents.passages(result, max_tokens=max_tokens, around=around, count_tokens=count_tokens)


def check_passages(max_tokens: int, around: int, count_tokens: object) -> None:
    """Raise ``InvalidLimitError`` for bounds that are no whole numbers in their ranges.

    Raises ``InvalidRequestError`` for a ``count_tokens`` that cannot be called.
    """
    check_functions(count_tokens=count_tokens)
    for name, value, most in (("max_tokens", max_tokens, MAX_PASSAGE_TOKENS), ("around", around, MAX_AROUND)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise InvalidLimitError(f"{name} is {value!r:.80}; it must be a whole number from 0 to {most:,}")


async def _documents(handle: CollectionHandle, chunking: Chunking = Chunking()) -> Documents:
    if not isinstance(chunking, Chunking):
        raise InvalidRequestError(f"chunking is a {type(chunking).__name__}; it must be a Chunking")
    return Documents(await writer_of(handle), partial(delete, handle))


async def _indexed(handle: CollectionHandle, report: DocumentsReport) -> DocumentsReport:
    chunks = report.chunks
    notes = (*chunks.notes, *await keep_indexed(handle, chunks))
    return replace(report, chunks=replace(chunks, notes=notes))
