"""Documents of a collection as they are read: listed, whole, and as the passages around a search's hits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from retrieval.adapters.embedders.batching import measure_of
from retrieval.adapters.store.items.items import item_from_row
from retrieval.adapters.store.items.listing import all_rows, rows_after
from retrieval.domain.checks import check_functions, checked_limit, tokens_by
from retrieval.domain.items.chunking import CHUNK, CHUNK_ATTRIBUTES
from retrieval.domain.items.embedding import TokenMeasure
from retrieval.domain.items.item import ITEM_FIELDS, Item
from retrieval.domain.items.passages import (
    ChunkPosition,
    Passages,
    cut_to_room,
    fitting,
    passages_of,
    position_of,
    positions_around,
    text_of,
)
from retrieval.domain.search.filters import And, Field, Filter, OneOf, Or
from retrieval.domain.search.hit import SearchResult
from retrieval.domain.serialization import Serializable
from retrieval.engine import collection_search
from retrieval.engine.collection_handle import CollectionHandle, from_a_replica
from retrieval.engine.request import checked_item_ids
from retrieval.services.add import Writer
from retrieval.services.items import writer_of

MAX_AROUND = 10
"""The most chunks of a passage on each side of its hit."""

MIN_PASSAGE_TOKENS, MAX_PASSAGE_TOKENS = 100, 10_000_000
"""The range of ``max_tokens``; the page's first line and one source take more than half of the minimum."""

_CHUNK_KIND = OneOf(Field("kind", is_attribute=False), (CHUNK,))
DOCUMENT, NUMBER = Field("document", is_attribute=True), Field("chunk", is_attribute=True)
CHUNK_COLUMNS = ("item_id", "attributes")
_CHUNKS_AT_A_TIME = 500
_PAGE = 10_000


def chunks_where(*filters: Filter) -> Filter:
    """The filter that chunks with these properties pass, and no other item."""
    return And((_CHUNK_KIND, *filters))


def _title_and_metadata(attributes: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in attributes.items() if key not in CHUNK_ATTRIBUTES}
    return {"title": str(attributes.get("document_title", "")), "metadata": metadata}


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentEntry(Serializable):
    """A stored document, by its first chunk."""

    id: str
    """The id that it was stored under."""
    title: str
    metadata: Mapping[str, Any]
    """Its metadata; each chunk has them as attributes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument(DocumentEntry):
    """A stored document with its text."""

    text: str
    """The text of all chunks. Text that two chunks share appears once; headings come from the chunks' titles."""
    item_ids: tuple[str, ...]
    """Its chunks, in their order."""


async def documents_after(
    handle: CollectionHandle, *, after: str, limit: int
) -> tuple[list[DocumentEntry], str | None]:
    """The next documents, and the position after which the next page begins; None where there is no next page.

    Chunks are in the order of their ids, which begin with that of their document.
    """
    stored, condition = await handle.fresh(), chunks_where(OneOf(NUMBER, (0,)))
    rows = await rows_after(
        handle.database, handle.tenant_id, stored, condition, CHUNK_COLUMNS, after=after, limit=limit + 1
    )
    # While a document is replaced, two chunks may say that they are its first.
    page = {str(attributes.get("document")): attributes for _, attributes in rows[:limit]}
    documents = [DocumentEntry(id=name, **_title_and_metadata(attributes)) for name, attributes in page.items()]
    return documents, rows[limit - 1][0] if len(rows) > limit else None


async def document_of(handle: CollectionHandle, document_id: str) -> StoredDocument | None:
    """The stored document of that id; None: there is no such document."""
    stored, condition = await handle.fresh(), chunks_where(OneOf(DOCUMENT, tuple(checked_item_ids([document_id]))))
    rows = all_rows(handle.database, handle.tenant_id, stored, condition, ITEM_FIELDS, at_a_time=_CHUNKS_AT_A_TIME)
    # While a document is replaced, two chunks may have the same position.
    by_position = _by_position([item_from_row(row) async for row in rows])
    ordered = [by_position[position] for position in sorted(by_position)]
    if not ordered:
        return None
    ids = tuple(chunk.item_id for chunk in ordered)
    return StoredDocument(
        id=document_id, text=text_of(ordered), item_ids=ids, **_title_and_metadata(ordered[0].attributes)
    )


@from_a_replica
async def passages(
    handle: CollectionHandle,
    query: str,
    result: SearchResult,
    *,
    max_tokens: int,
    around: int,
    count_tokens: Callable[[str], int] | None,
) -> Passages:
    """The passages of a search's hits. See ``Collection.passages``."""
    writer = await writer_of(handle)
    positions = positions_around(result.hits, around)
    beside = await _chunks_at(writer, positions)
    count = count_tokens or partial(_tokens_of, await measure_for(writer))

    def fits(page: str) -> bool:
        return tokens_by(count, page) <= max_tokens

    hits, cut = result.hits, None
    whole = await asyncio.to_thread(fitting, hits, fits=fits)
    if whole < len(hits):
        part = await collection_search.parts_of(handle, query, hits[whole])
        cut = await asyncio.to_thread(cut_to_room, hits[:whole], hits[whole], part, fits=fits)
        hits = hits if cut is None else hits[:whole] + hits[whole + 1 :]
    passages, text, left_out = await asyncio.to_thread(
        passages_of, hits, beside, positions, fits=fits, whole=whole, cut=cut
    )
    return Passages(
        passages=passages,
        text=text,
        tokens=count(text) if text else 0,
        left_out=left_out,
        retrieval_id=result.retrieval_id,
        notes=(*result.notes, *result.why_no_hits),
    )


def check_passages(max_tokens: int, around: int, count_tokens: object) -> None:
    """Raise ``InvalidLimitError`` for bounds that are not whole numbers in their ranges.

    Raises ``InvalidRequestError`` for a ``count_tokens`` that cannot be called.
    """
    check_functions(count_tokens=count_tokens)
    checked_limit(max_tokens, MAX_PASSAGE_TOKENS, least=MIN_PASSAGE_TOKENS, name="max_tokens")
    checked_limit(around, MAX_AROUND, least=0, name="around")


async def measure_for(writer: Writer) -> TokenMeasure:
    """The measure of the collection's embedder, or an estimate (``measure_of``)."""
    return measure_of(None) if writer.embedder is None else await writer.embedder.measure()


def _tokens_of(measure: TokenMeasure, text: str) -> int:
    return measure.count_tokens([text])[0]


async def _chunks_at(writer: Writer, positions: Sequence[ChunkPosition]) -> dict[ChunkPosition, Item]:
    if not positions:
        return {}
    numbers: dict[str, list[int]] = {}
    for document, number in positions:
        numbers.setdefault(document, []).append(number)
    each = [And((OneOf(DOCUMENT, (name,)), OneOf(NUMBER, tuple(some)))) for name, some in numbers.items()]
    in_collection = (writer.database, writer.tenant_id, writer.collection)
    condition = chunks_where(Or(tuple(each)))
    rows = await rows_after(*in_collection, condition, ITEM_FIELDS, after="", limit=_PAGE)
    return _by_position(map(item_from_row, rows))


def _by_position(chunks: Iterable[Item]) -> dict[ChunkPosition, Item]:
    return {position: chunk for chunk in chunks if (position := position_of(chunk)) is not None}
