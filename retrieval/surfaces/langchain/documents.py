"""Documents of LangChain as items, and items and hits as documents. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from langchain_core.documents import Document

from retrieval.adapters.readers.records import EXPLANATION_KEY, document_item
from retrieval.domain.checks import clean_text, clean_value
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.item import Item
from retrieval.domain.search.hit import Hit, SearchResult

NewId = Callable[[], str]


def new_id() -> str:
    """An id for a document that has none."""
    return str(uuid4())


def items_of(documents: Sequence[Document], ids: Sequence[str | None] | None, new: NewId = new_id) -> list[Item]:
    """The items of documents, in order; an id of ``ids`` goes before the document's own, and one of ``new`` is last.

    Raises ``InvalidRequestError`` when ids and documents are not as many, and ``InvalidItemError``.
    """
    given = [None] * len(documents) if ids is None else list(ids)
    if len(given) != len(documents):
        raise InvalidRequestError(f"{len(given)} ids for {len(documents)} documents; give one for each")
    return [
        document_item(str(item_id or one.id or new()), one.page_content, one.metadata)
        for one, item_id in zip(documents, given, strict=True)
    ]


def document_of(found: Item | Hit, explained: Mapping[str, Any] | None = None) -> Document:
    """The document of an item or a hit; ``explained`` comes under the reserved name of its metadata.

    An item's title, which no document has, stands before its text, and in the metadata with the item's other fields.
    Characters that would hide or forge something are left out.
    """
    extra = {} if explained is None else {EXPLANATION_KEY: dict(explained)}
    text = f"{found.title}\n{found.body}" if found.title and found.body else found.title or found.body
    metadata = clean_value(_fields(found) | dict(found.attributes))
    return Document(id=found.item_id, page_content=clean_text(text), metadata=metadata | extra)


def documents_of(result: SearchResult, *, explain: bool) -> list[Document]:
    """The documents of a search, best first."""
    return [document_of(hit, explanation_of(hit, result.retrieval_id) if explain else None) for hit in result]


def explanation_of(hit: Hit, retrieval_id: UUID | None) -> dict[str, Any]:
    """How a hit came about, in plain JSON values; ``retrieval_id`` is what feedback on it names."""
    return {
        "retrieval_id": None if retrieval_id is None else str(retrieval_id),
        "score": hit.score,
        "relevance": hit.relevance,
        "rank": hit.rank,
        "slot": hit.slot.value,
        "propensity": hit.propensity,
        "explanation": hit.explanation.as_dict(),
        **({} if hit.snippet is None else {"snippet": hit.snippet.as_dict()}),
    }


def _fields(found: Item | Hit) -> dict[str, Any]:
    """The fields that say something."""
    values = {
        "title": found.title,
        "kind": found.kind,
        "tags": list(found.tags),
        "status": "" if found.status == "active" else found.status,
        "source": found.source,
        "occurred_at": found.occurred_at.isoformat() if found.occurred_at else "",
    }
    return {name: value for name, value in values.items() if value}
