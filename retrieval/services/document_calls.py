"""The calls about documents, for a collection to inherit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from retrieval.domain.errors import InvalidLimitError, InvalidRequestError
from retrieval.domain.items.chunking import Chunking
from retrieval.domain.learning.context import Context
from retrieval.domain.search.filters import Filter, Where
from retrieval.engine.collection_handle import told_if_gone
from retrieval.services.calls import ItemCalls

if TYPE_CHECKING:
    from retrieval.adapters.readers.documents import RawDocument
    from retrieval.domain.items.passages import Passages
    from retrieval.domain.search.hit import SearchResult
    from retrieval.services.documents import DocumentProgress, Documents, DocumentsReport, Paths

MAX_AROUND = 10
"""The most chunks on one side of a hit that a passage takes in."""

MAX_PASSAGE_TOKENS = 10_000_000


class DocumentCalls(ItemCalls):
    """Documents are stored as chunks, which are items; their document is the attribute ``document``."""

    @abstractmethod
    async def delete(self, item_ids: Sequence[str]) -> int:
        """Remove items."""

    @abstractmethod
    async def search(
        self,
        query: str | None = None,
        *,
        where: Where | Filter | None = None,
        limit: int = 10,
        context: Context = Context(),
    ) -> SearchResult:
        """The best hits."""

    @told_if_gone
    async def ingest_documents(
        self,
        paths: Paths,
        *,
        chunking: Chunking = Chunking(),
        prune: bool = False,
        progress: DocumentProgress | None = None,
    ) -> DocumentsReport:
        """Store the documents of files and folders as chunks; unchanged ones cost nothing.

        Markdown, HTML, PDF, DOCX, source code and plain text, by their endings. Of a changed document only new chunks
        are embedded. What cannot be read is told in ``report.failed``, and stops no other. ``prune`` removes the
        documents that the folders no longer hold, which ``report.vanished`` names; not where a folder could not be
        listed. Raises ``InvalidRequestError`` for a path that is not there or whose name tells no format.
        """
        documents = await self._documents(chunking)
        return await self._indexed(await documents.ingest(paths, chunking, prune=prune, progress=progress))

    @told_if_gone
    async def add_documents(
        self, documents: Iterable[RawDocument | Mapping[str, Any]], *, chunking: Chunking = Chunking()
    ) -> DocumentsReport:
        """Store documents as chunks: ``{"id": "faq", "text": "# Questions ..."}``; unchanged ones cost nothing.

        ``format`` is ``markdown`` (the default), ``html``, ``text`` or ``code``; ``title`` and ``metadata`` may be
        there. Of a changed document only new chunks are embedded. What cannot be read is told in ``report.failed``.
        Raises ``InvalidItemError`` for what is no document, before anything is stored.
        """
        return await self._indexed(await (await self._documents(chunking)).add(documents, chunking))

    @told_if_gone
    async def delete_documents(self, document_ids: Sequence[str]) -> int:
        """Remove documents with all of their chunks; gives how many there were. Else as ``delete``."""
        return await (await self._documents()).remove(document_ids)

    async def passages(
        self,
        query: str,
        *,
        max_tokens: int = 2000,
        around: int = 1,
        limit: int = 10,
        where: Where | Filter | None = None,
        count_tokens: Callable[[str], int] | None = None,
        context: Context = Context(),
    ) -> Passages:
        """What the collection says about a question, as text for a prompt of at most ``max_tokens`` tokens.

        The ``limit`` best hits are taken in their order as far as there is room, then up to ``around`` chunks on each
        side of them, 0 to 10; chunks that follow one another become one passage. Tokens are those of the collection's
        model, or an estimate; ``count_tokens`` counts them as your language model does. Raises what ``search`` raises,
        and ``InvalidLimitError``.
        """
        for name, value, most in (("max_tokens", max_tokens, MAX_PASSAGE_TOKENS), ("around", around, MAX_AROUND)):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
                raise InvalidLimitError(f"{name} is {value!r:.80}; it must be a whole number from 0 to {most:,}")
        result = await self.search(query, limit=limit, where=where, context=context)
        documents = await self._documents()
        return await documents.passages(result, max_tokens=max_tokens, around=around, count_tokens=count_tokens)

    async def _documents(self, chunking: Chunking = Chunking()) -> Documents:
        from retrieval.services.documents import Documents

        if not isinstance(chunking, Chunking):
            raise InvalidRequestError(f"chunking is a {type(chunking).__name__}; it must be a Chunking")
        return Documents(await self._writer(), self.delete)

    async def _indexed(self, report: DocumentsReport) -> DocumentsReport:
        chunks = report.chunks
        notes = (*chunks.notes, *await self._keep_indexed(chunks))
        return replace(report, chunks=replace(chunks, notes=notes))
