"""Copies a store of ``langchain-postgres`` into a collection: ids, texts, metadata and vectors, as they are.

    async with connect() as platform:
        docs = await platform.collection("docs")
        report = await copy_store(url, LangChainStore(name="my_docs"), docs)

Nothing is embedded again: the collection's embedding space must be that of the model that made the vectors. A second
copy stores only documents that have changed, and so completes an interrupted copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass

import numpy as np

from retrieval.adapters.readers.langchain_postgres import LangChainDocument, LangChainStore, stored_documents
from retrieval.adapters.readers.records import document_item
from retrieval.collection import Collection
from retrieval.domain.errors import (
    ConfigurationError,
    InvalidItemError,
    InvalidRequestError,
    InvalidVectorError,
    WrongDimensionError,
)
from retrieval.domain.items.embedding import Vector, checked_vectors
from retrieval.domain.items.item import Item
from retrieval.domain.serialization import Serializable
from retrieval.platform import Platform

__all__ = ["CopyReport", "LangChainStore", "copy_store"]

Rejected = Callable[[str, str], None]
"""Called with the id of a document that cannot be stored as an item, and the reason."""

PAGE = 1000

_NO_SPACE = (
    "collection {!r} has no embedding space for the vectors; configure the embedder that made them, or make it with "
    "platform.collection(name, space=EmbeddingSpace(...))"
)

_SAME = 0.9995
"""The least cosine of a stored vector with that of the source; vectors are stored in half precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport(Serializable):
    """The outcome of the copy."""

    read: int = 0
    copied: int = 0
    """The number of new or changed documents."""
    unchanged: int = 0
    """The number of items that existed already, with their vector."""
    without_vector: int = 0
    """The number of copied items without a usable vector in the source, which the collection's embedder embeds."""
    rejected: int = 0
    """The number of rows that cannot be stored as items."""
    renamed: int = 0
    """The number of items whose id another row also has, as former tables of ``PGVector`` allow. Their id is the key of
    their row.
    """

    def __add__(self, other: CopyReport) -> CopyReport:
        mine, its = asdict(self), asdict(other)
        return CopyReport(**{name: mine[name] + its[name] for name in mine})


async def copy_store(
    url: str,
    store: LangChainStore,
    collection: Collection,
    *,
    rejected: Rejected | None = None,
    progress: Callable[[CopyReport], None] | None = None,
    page: int = PAGE,
) -> CopyReport:
    """Copy the store at the URL into the collection; each page is stored before the next one is read.

    Raises ``NotFoundError`` for a store that does not exist, ``InvalidRequestError`` for a collection without vectors,
    ``WrongDimensionError`` for vectors of another length than the collection's, ``InvalidItemError`` for a document
    that cannot be an item unless ``rejected`` is given, and the errors of ``DatabaseError``.
    """
    if await collection.space() is None:
        raise InvalidRequestError(_NO_SPACE.format(collection.name))
    report = CopyReport()
    async with aclosing(stored_documents(url, store, page=page)) as pages:
        async for documents in pages:
            report += await _copied(collection, documents, rejected)
            if progress is not None:
                progress(report)
    return report


async def target_of(platform: Platform, name: str) -> Collection:
    """The collection, created if missing. Raises ``InvalidRequestError`` if it would have no space for vectors."""
    if name not in [known.name for known in await platform.collections()]:
        with suppress(ConfigurationError):  # the dimensions are not known yet
            if platform.embedder is None:
                raise InvalidRequestError(_NO_SPACE.format(name))
    return await platform.collection(name)


async def _copied(
    collection: Collection, documents: Sequence[LangChainDocument], rejected: Rejected | None
) -> CopyReport:
    items, vectors, space = dict[str, Item](), dict[str, Vector](), await collection.space()
    refused = 0
    for document in documents:
        try:
            items[document.id] = document_item(document.id, document.text, document.metadata)
            if space is not None and document.vector is not None:
                vectors[document.id] = checked_vectors([document.vector], space, [repr(document.id)])[0]
        except WrongDimensionError:
            raise
        except InvalidVectorError:
            continue  # the embedder makes another one
        except InvalidItemError as error:
            if rejected is None:
                raise
            rejected(document.id, str(error))
            refused += 1
    waiting = await _changed(collection, items, vectors)
    given = [item for item in waiting if item.item_id in vectors]
    others = [item for item in waiting if item.item_id not in vectors]
    if given:
        await collection.add(given, embeddings=np.stack([vectors[item.item_id] for item in given]))
    if others:
        await collection.add(others)
    return CopyReport(
        read=len(documents),
        copied=len(waiting),
        unchanged=len(items) - len(waiting),
        without_vector=len(others),
        rejected=refused,
        renamed=sum(document.is_renamed for document in documents),
    )


async def _changed(collection: Collection, items: dict[str, Item], vectors: dict[str, Vector]) -> list[Item]:
    """The items that the collection does not have, or has with different content."""
    if not items:
        return []
    there, stored = await collection.get(list(items)), await collection.embeddings(list(items))
    return [
        item
        for item in items.values()
        if there.get(item.item_id) != item
        or item.item_id not in stored
        or (item.item_id in vectors and float(stored[item.item_id] @ vectors[item.item_id]) < _SAME)
    ]
