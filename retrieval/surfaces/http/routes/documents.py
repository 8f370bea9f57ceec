"""Documents: their routes, and the models of their requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import AfterValidator, Field

from retrieval.adapters.readers.documents import DOCUMENT_FORMATS, RawDocument, format_of
from retrieval.collection import handle_of
from retrieval.domain.checks import written
from retrieval.domain.errors import InvalidItemError, UnknownItemError
from retrieval.domain.items.chunking import DEFAULT_OVERLAP, DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS, Chunking
from retrieval.engine.request import checked_item_ids
from retrieval.services.documents import DocumentsReport
from retrieval.services.stored_documents import DocumentEntry, StoredDocument, document_of, documents_after
from retrieval.surfaces.http.caller import ReadCollection, WriteCollection
from retrieval.surfaces.http.json_bodies import After, ItemId, JSONAnswer, JSONBodies, at, object_of, path_id
from retrieval.surfaces.http.models import AFTER, AnswerPart, Sent, listed, model_of
from retrieval.surfaces.http.routes.items import MAX_ITEMS

ChunkTokens = Annotated[int, Field(ge=MIN_TOKENS, le=MAX_TOKENS)]
Overlap = Annotated[int, Field(ge=0)]


class DocumentSent(Sent):
    """A document as text; a file is sent with PUT instead."""

    id: Annotated[str, Field(min_length=1, max_length=480), AfterValidator(path_id)]
    """The application's own key, 1 to 480 bytes."""
    text: str
    format: Literal["markdown", "html", "text", "code"] = "markdown"
    title: str = ""
    """Left out: the title in the text, otherwise the last part of the id."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """JSON values by name, which become attributes of every chunk; filterable."""


class DocumentsRequest(
    Sent, examples=[{"documents": [{"id": "handbook/leave.md", "text": "# Leave\n\nIt is asked for by mail."}]}]
):
    """Documents to store."""

    documents: Annotated[list[DocumentSent], Field(max_length=MAX_ITEMS)]
    """A list of at most 1000."""
    max_tokens: ChunkTokens = DEFAULT_TOKENS
    """The greatest number of tokens of a chunk with its title, within the limit of the model."""
    overlap: Overlap = DEFAULT_OVERLAP
    """Tokens repeated from the previous chunk if a paragraph is split; up to a quarter of `max_tokens`."""


class FailedDocument(AnswerPart):
    """A document that could not be read; its stored chunks are kept."""

    document: str
    reason: str


class DocumentsReportTold(AnswerPart):
    """The outcome for the documents."""

    added: int
    changed: int
    unchanged: int
    """The number of unchanged documents, which cost nothing."""
    failed: list[FailedDocument]
    """Documents that could not be read; the others are stored."""
    empty: list[str]
    """Documents without any text, such as scanned pages; they are not stored."""
    cleaned: int
    """The number of documents from which control or format characters were removed."""
    notes: list[str]
    chunks: dict[str, int | bool | None]
    """The outcome for the chunks; `removed` counts chunks of former versions."""


DocumentPage = listed(
    "DocumentPage", "A page of documents, approximately in the order of their ids.", AFTER, documents=DocumentEntry
)

router = APIRouter(prefix="/v1/collections/{name}/documents", tags=["documents"], route_class=JSONBodies)

_TYPES = {
    "text/markdown": "markdown",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
}
"""The formats of files by media type; without text/plain, which clients send with files of any kind."""

_FILE: dict[str, Any] = {
    "requestBody": {
        "description": "The content of the file.",
        "required": True,
        "content": {
            media_type: {"schema": {"type": "string", "format": "binary"}, "example": "# Leave\n\nBy mail."}
            for media_type in ("application/octet-stream", "text/plain", *_TYPES)
        },
    }
}


@router.get("", response_model=DocumentPage, summary="List documents")
async def documents(
    collection: ReadCollection,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS, description="The greatest number of documents.")] = 100,
) -> JSONAnswer:
    """A page of the documents, approximately in the order of their ids."""
    if after:
        checked_item_ids([after])
    entries, next_id = await documents_after(handle_of(collection), after=after, limit=limit)
    return JSONAnswer({"documents": [entry.as_dict() for entry in entries], "next": next_id})


@router.post("", response_model=DocumentsReportTold, summary="Store documents")
async def add_documents(collection: WriteCollection, body: DocumentsRequest) -> JSONAnswer:
    """Store new texts and new versions as chunks; unchanged texts cost nothing.

    A document that cannot be read is listed in `failed` with the reason; the others are stored.
    """
    records = [document.model_dump() for document in body.documents]
    with at("overlap"):
        chunking = Chunking(max_tokens=body.max_tokens, overlap=body.overlap)
    with at("documents"):
        report = await collection.add_documents(records, chunking=chunking)
    return JSONAnswer(_report_fields(report))


@router.put(
    "/{document_id:path}",
    response_model=DocumentsReportTold,
    responses={201: {"description": "It is new", "model": DocumentsReportTold}},
    openapi_extra=_FILE,
    summary="Store a file",
)
async def put_document(
    request: Request,
    collection: WriteCollection,
    document_id: ItemId,
    *,
    format: Annotated[  # noqa: A002 - the parameter's name
        Literal[DOCUMENT_FORMATS] | None,  # type: ignore[valid-type]
        Query(description="The format; left out: by the media type, otherwise by the suffix of the id."),
    ] = None,
    title: Annotated[str, Query(description="Left out: the file's own, otherwise the last part of the id.")] = "",
    metadata: Annotated[
        str | None,
        Query(description="A JSON object; each chunk has its values as attributes.", examples=['{"team": "people"}']),
    ] = None,
    max_tokens: Annotated[ChunkTokens, Query(description="Tokens of a chunk with its title.")] = DEFAULT_TOKENS,
    overlap: Annotated[
        Overlap, Query(description="Tokens repeated if a paragraph is split; up to a quarter of `max_tokens`.")
    ] = DEFAULT_OVERLAP,
) -> JSONAnswer:
    """Store a file of Markdown, HTML, PDF, DOCX, source code or plain text as chunks; it replaces its former version.

    An unchanged file costs nothing; of a changed file only the new chunks are embedded.
    """
    document = RawDocument(
        document_id=document_id,
        data=await request.body(),
        format=format or _document_format(request.headers.get("content-type", ""), document_id),
        title=title,
        attributes=object_of("metadata", metadata),
    )
    report = await collection.add_documents([document], chunking=Chunking(max_tokens=max_tokens, overlap=overlap))
    if report.failed:
        raise InvalidItemError(f"document {written(document_id)}: {report.failed[0][1]}", item_id=document_id)
    return JSONAnswer(_report_fields(report), 201 if report.added else 200)


@router.get("/{document_id:path}", response_model=model_of(StoredDocument), summary="Get a document")
async def document(collection: ReadCollection, document_id: ItemId) -> JSONAnswer:
    """A document with the text of all its chunks; the file itself is not stored."""
    stored_document = await document_of(handle_of(collection), document_id)
    if stored_document is None:
        raise _no_document(document_id)
    return JSONAnswer(stored_document.as_dict())


@router.delete("/{document_id:path}", status_code=204, summary="Remove a document")
async def remove_document(collection: WriteCollection, document_id: ItemId) -> Response:
    """Remove a document with all of its chunks."""
    if not await collection.delete_documents([document_id]):
        raise _no_document(document_id)
    return Response(status_code=204)


def _no_document(document_id: str) -> UnknownItemError:
    return UnknownItemError(f"there is no document {written(document_id)}; see GET .../documents")


def _document_format(content_type: str, document_id: str) -> str:
    media_type = content_type.partition(";")[0].strip().lower()
    document_format = (
        _TYPES.get(media_type) or format_of(document_id) or ("text" if media_type == "text/plain" else None)
    )
    if document_format is None:
        raise InvalidItemError(
            f"document {written(document_id)}: its format does not follow from the media type or the suffix of the id; "
            f"give ?format=, one of {', '.join(DOCUMENT_FORMATS)}",
            item_id=document_id,
        )
    return document_format


def _report_fields(report: DocumentsReport) -> dict[str, Any]:
    """The report without the fields that only folders have."""
    fields = report.as_dict()
    return {name: value for name, value in fields.items() if name not in ("vanished", "removed", "skipped")}
