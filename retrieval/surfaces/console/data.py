"""The Data view: uploads of files with a mapping of their columns; browsing, editing and deleting items."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import htpy as h
from starlette.datastructures import UploadFile
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from retrieval.adapters.readers import InputLine, column_names, read_items
from retrieval.adapters.readers.records import FIELD_NAMES
from retrieval.adapters.store.deadline import in_background
from retrieval.collection import Collection
from retrieval.domain import errors
from retrieval.domain.api_key import Scope
from retrieval.domain.checks import written
from retrieval.domain.items.item import StoredItem
from retrieval.domain.wording import several
from retrieval.services.documents import DocumentsReport
from retrieval.services.ingest import IngestReport
from retrieval.surfaces.console.frame import (
    Visit,
    empty,
    notice,
    page,
    problem_box,
    shown_value,
    table,
    text_area,
    text_field,
    view,
)
from retrieval.surfaces.http.answers import report
from retrieval.surfaces.http.bulk import MAX_LINE_BYTES
from retrieval.surfaces.http.caller import Service, service_of
from retrieval.surfaces.http.json_bodies import object_of
from retrieval.surfaces.http.problems import INTERNAL, headers_of, problem_of, problem_type
from retrieval.surfaces.tenants import begin_holding, give_back

_log = logging.getLogger(__name__)

_PAGE = 50
_SHOWN, _MOST_REFUSED, _MOST_UPLOADS = 5, 50, 50
"""The most items of a preview, listed refused lines, and uploads that are kept."""
_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_CELL = 160
_ALONE = "not imported: import a CSV or JSON file by itself"
_FILES = "uploads"
"""The folder with the files of an upload, and its name in the collection if they are not all in one folder."""
_ONE_POST = "#upload:drop"
"""A second click posts nothing; a click abandons a request for progress, whose answer would replace the click's."""

_SLOW = json.dumps({"timeout": 3_600_000})
"""The milliseconds in which files may be sent over a slow line: the service refuses those that do not go on."""


@dataclass(slots=True, eq=False)
class Upload:
    """Uploaded files, and the outcome of storing them."""

    tenant: str
    collection: str
    folder: tempfile.TemporaryDirectory[str]
    source: Path
    """The CSV or JSON Lines file, or the folder of the documents."""
    is_table: bool
    done: int = 0
    total: int = 0
    report: IngestReport | DocumentsReport | None = None
    refused: list[tuple[str, str]] = field(default_factory=list)
    """The place of each refused entry, with the reason."""
    error: str = ""
    task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the upload is being stored."""
        return self.task is not None and not self.task.done()


def _uploads(visit: Visit) -> OrderedDict[str, Upload]:
    state = visit.request.app.state
    if not hasattr(state, "console_uploads"):
        state.console_uploads = OrderedDict[str, Upload]()
    uploads: OrderedDict[str, Upload] = state.console_uploads
    return uploads


def _upload(visit: Visit) -> Upload:
    """The upload of the caller's tenant in the request. Raises ``InvalidRequestError`` if it no longer exists."""
    upload = _uploads(visit).get(visit.text("upload"))
    if upload is None or upload.tenant != visit.caller.tenant:
        raise errors.InvalidRequestError("this upload no longer exists; send the files again")
    return upload


async def data(visit: Visit) -> h.Node:
    """The items of a collection, page by page, and the form for uploads."""
    upload_form = _upload_form(visit) if visit.may(Scope.WRITE) else None
    if not visit.text("collection"):
        return await page(visit, "Data", [upload_form, h.p(".hint")["Choose a collection to browse its items."]])
    collection = await visit.collection()
    stored = await collection.page(after=visit.text("after"), limit=_PAGE + 1)
    return await page(visit, "Data", [upload_form, _items(visit, collection, stored)])


def _items(visit: Visit, collection: Collection, stored: Sequence[StoredItem]) -> h.Node:
    """A page of the stored items; one more item than a page has means that there is another page."""
    if not stored:
        return empty("There are no items here.")
    shown = stored[:_PAGE]
    rows = [
        (
            h.a(href=visit.url("/data/item", collection=collection.name, id=entry.item.item_id))[entry.item.item_id],
            entry.item.title or entry.item.body[:_CELL],
            ", ".join(entry.item.tags),
            entry.item.status,
            shown_value(entry.updated_at),
        )
        for entry in shown
    ]
    more = visit.url("/data", collection=collection.name, after=shown[-1].item.item_id)
    return h.section(".card")[
        table(("id", "title", "tags", "status", "changed"), rows, caption=f"Items of {collection.name}, by id"),
        h.nav(".pages", aria_label="Pages")[
            h.a(href=visit.url("/data", collection=collection.name))["First page"] if visit.text("after") else None,
            h.a(href=more, rel="next")["Next page"] if len(stored) > _PAGE else None,
        ],
    ]


def _upload_form(visit: Visit) -> h.Node:
    return h.section(".card")[
        h.h2["Import data"],
        h.form(method="post", action=visit.url("/data/upload"), enctype="multipart/form-data",
               hx_post=visit.url("/data/upload"), hx_encoding="multipart/form-data", hx_target="#upload",
               hx_sync=_ONE_POST, hx_request=_SLOW)[
            h.div(".cards")[
                h.div[
                    h.label(for_="into")["Into the collection"],
                    h.input("#into", type="text", name="collection", value=visit.text("collection"), required=True,
                            maxlength="60"),
                    h.p(".hint")["A new name creates a new collection."] if visit.may(Scope.ADMIN) else None,
                ],
                h.div[
                    h.label(for_="files")["Drop a CSV or JSON Lines file here, or documents"],
                    h.input("#files", type="file", name="files", multiple=True),
                ],
                h.div[
                    h.label(for_="folder")["Or a folder of documents here"],
                    h.input("#folder", type="file", name="files", multiple=True, webkitdirectory=True),
                ],
            ],
            h.p[h.button(type="submit")["Preview"]],
        ],
        h.div("#upload", aria_live="polite"),
    ]  # fmt: skip


async def upload(visit: Visit) -> h.Node:
    """Save the uploaded files; show a preview of a table, or a button that stores documents."""
    files, name = visit.file("files"), visit.text("collection").strip()
    if not files:
        raise errors.InvalidRequestError("choose a file or a folder first")
    try:
        await visit.platform.collection(name, create=False)
    except errors.UnknownCollectionError:
        if not visit.may(Scope.ADMIN):
            raise
    tables = [file for file in files if (file.filename or "").lower().removesuffix(".gz").endswith(_TABLES)]
    if tables and len(files) > 1:
        files = [file for file in files if file not in tables]
        if not files:
            raise errors.InvalidRequestError("send one CSV or JSON file at a time")
    is_table = files == tables
    paths = [_path_of(file) for file in files]
    folder = tempfile.TemporaryDirectory(prefix="retrieval-console-")
    root = Path(folder.name) / _FILES
    try:
        for path, file in zip(paths, files, strict=True):
            await asyncio.to_thread(_save_file, root / path, file)
    except BaseException:
        folder.cleanup()
        raise
    shared = {path.parts[0] if len(path.parts) > 1 else "" for path in paths}
    source = root / paths[0] if is_table else root / shared.pop() if len(shared) == 1 else root
    left_out = [] if is_table else [(file.filename or "", _ALONE) for file in tables]
    batch = Upload(visit.caller.tenant, name, folder, source, is_table, refused=left_out)
    uploads, token = _uploads(visit), secrets.token_urlsafe(16)
    uploads[token] = batch
    while len(uploads) > _MOST_UPLOADS and (
        oldest := next((key for key, former in uploads.items() if not former.is_running), None)
    ):
        uploads.pop(oldest).folder.cleanup()
    content = await _mapping(visit, batch, token) if is_table else _documents(visit, batch, token, len(paths))
    return content if visit.is_part else await page(visit, "Data", h.div("#upload")[content])


def _path_of(file: UploadFile) -> PurePosixPath:
    """The path of the file in the folder of its upload, never outside of it; a client may send any name."""
    parts = (file.filename or "").replace("\0", "").replace("\\", "/").split("/")
    return PurePosixPath(*[part for part in parts if part not in ("", ".", "..")] or ["file"])


def _save_file(path: Path, file: UploadFile) -> None:
    """Save the file at the path.

    Raises ``InvalidRequestError`` for a name that this machine's file system cannot have.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as target:
            shutil.copyfileobj(file.file, target)
    except OSError as error:
        raise errors.InvalidRequestError(
            f"file {written(file.filename)} cannot be saved: {error.strerror}; rename it"
        ) from error


def _documents(visit: Visit, batch: Upload, token: str, number: int) -> h.Node:
    return h.form(hx_post=visit.url("/data/store"), hx_target="#upload", hx_sync=_ONE_POST)[
        h.p[f"{number:,} {'file' if number == 1 else 'files'}: each is split into chunks that are found individually."],
        table(("where", "why"), batch.refused, caption="Left out") if batch.refused else None,
        h.input(type="hidden", name="upload", value=token),
        h.button(type="submit")["Store them"],
    ]


def _names(batch: Upload) -> list[str]:
    """The columns of a CSV file, or the entries in the first lines of a JSON file."""
    names = column_names(batch.source)
    if names is not None:
        return [name for name in names if name]
    lines = list(islice(_lines(batch, {}), 20))
    if not lines:
        raise errors.InvalidRequestError(f"{batch.source}: is empty; a JSON Lines file has an item in each line")
    entries: dict[str, None] = {}
    for line in lines:
        try:
            entries.update(dict.fromkeys(json.loads(line.raw)))
        except (ValueError, TypeError):
            continue
    return list(entries)


async def _mapping(visit: Visit, batch: Upload, token: str) -> h.Node:
    try:
        names = await asyncio.to_thread(_names, batch)
    except errors.RetrievalError as error:
        return problem_box("This file cannot be read", _message(batch, error))
    return h.form("#mapping", hx_post=visit.url("/data/store"), hx_target="#upload", hx_sync=_ONE_POST)[
        h.input(type="hidden", name="upload", value=token),
        h.h3["Choose the column of each field. The other columns become attributes."],
        h.div(".cards", hx_post=visit.url("/data/preview"), hx_trigger="change", hx_include="#mapping",
              hx_target="#preview", hx_sync="this:replace")[
            (_field(names_of_field[0], names_of_field, names) for names_of_field in FIELD_NAMES.values())
        ],
        h.div("#preview")[await _preview(batch, {})],
    ]  # fmt: skip


def _field(name: str, aliases: Sequence[str], names: Sequence[str]) -> h.Node:
    same_name = next((name for name in aliases if name in names), "")
    key = f"map-{name}"
    return h.div[
        h.label(for_=key)[{"_id": "id", "occurred_at": "time"}.get(name, name)],
        h.select(f"#{key}", name=f"map.{name}")[
            h.option(value="")[f"{same_name} (by its name)" if same_name else "none"],
            (h.option(value=name)[name] for name in names if name != same_name),
        ],
    ]


def _columns(visit: Visit) -> dict[str, str]:
    """The chosen mapping."""
    fields = (names[0] for names in FIELD_NAMES.values())
    return {name: column for name in fields if (column := visit.text(f"map.{name}"))}


async def preview(visit: Visit) -> h.Node:
    """The first items as they would be stored, and the button that stores them, unless the columns do not fit."""
    return await _preview(_upload(visit), _columns(visit))


async def _preview(batch: Upload, columns: Mapping[str, str]) -> h.Node:
    try:
        rows = [_row(batch, line) for line in await _first_lines(batch, columns)]
    except errors.InvalidRequestError as error:
        return problem_box("The file cannot be stored with these columns", str(error))
    names = ("id", "title", "text", "tags", "attributes")
    return [
        table(names, rows, caption="The first items as they would be stored"),
        h.p[h.button(type="submit")["Store the items"]],
    ]


async def _first_lines(batch: Upload, columns: Mapping[str, str]) -> list[InputLine]:
    """The first lines of the table. Raises ``InvalidRequestError`` if it cannot be read with these columns."""
    try:
        return await asyncio.to_thread(lambda: list(islice(_lines(batch, columns), _SHOWN)))
    except errors.RetrievalError as error:
        raise errors.InvalidRequestError(_message(batch, error)) from error


def _row(batch: Upload, line: InputLine) -> tuple[h.Node, ...]:
    item = line.item
    if item is None:
        return (f"line {line.line}", h.span(".state.error")["refused"], _message(batch, line.error or ""), "", "")
    attributes = json.dumps(dict(item.attributes), ensure_ascii=False, default=str)
    return (item.item_id, item.title[:_CELL], item.body[:_CELL], ", ".join(item.tags), attributes[:_CELL])


def _lines(batch: Upload, columns: Mapping[str, str]) -> Iterator[InputLine]:
    return read_items(batch.source, columns=columns or None, max_line_bytes=MAX_LINE_BYTES)


_ADVICE = {
    errors.Advice.MAP_ID: "choose the column of the id",
    errors.Advice.MAP_TEXT: "choose the column of the text",
    errors.Advice.NAME_TEXT: "choose the column of the text",
}
"""The advice of errors about a file, in the words of the page."""


def _message(batch: Upload, error: Exception | str) -> str:
    """The error's message without the path of the temporary folder."""
    message = str(error)
    if isinstance(error, errors.RetrievalError) and error.advice in _ADVICE:
        message = f"{error.fact}; {_ADVICE[error.advice]}"
    return message.replace(f"{batch.folder.name}/{_FILES}/", "").replace(batch.folder.name, "")


async def store(visit: Visit) -> h.Node:
    """Begin to store the uploaded files in the background; the page shows the progress.

    Raises ``InvalidRequestError`` for a table that cannot be read with its columns, before anything is made.
    """
    batch, columns = _upload(visit), _columns(visit)
    if batch.is_table and batch.task is None:
        await _first_lines(batch, columns)
    await visit.platform.collection(batch.collection, create=visit.may(Scope.ADMIN))
    if batch.task is None:
        batch.task = in_background(_store_upload(service_of(visit.request), batch, columns))
    return _progress(visit, batch)


async def _store_upload(service: Service, batch: Upload, columns: Mapping[str, str]) -> None:
    holder: dict[str, Any] = {}
    begin_holding(holder)
    try:
        platform = await service.of_tenant(batch.tenant, holder)
        collection = await platform.collection(batch.collection, create=False)
        await (_store_table(collection, batch, columns) if batch.is_table else _store_documents(collection, batch))
    except asyncio.CancelledError:
        _log.warning(
            "the service ended while %s was stored in the collection %r: a part is stored; store it again",
            batch.source.name, batch.collection,
        )  # fmt: skip
        raise
    except errors.RetrievalError as error:
        report(error)
        batch.error = problem_type(type(error)).detail or _message(batch, error)
    except Exception as error:  # noqa: BLE001 - the page shows that it failed
        report(error)
        batch.error = INTERNAL
    finally:
        give_back(holder)
        batch.folder.cleanup()


async def _store_table(collection: Collection, batch: Upload, columns: Mapping[str, str]) -> None:
    batch.total = batch.source.stat().st_size

    def rejected(line: InputLine) -> None:
        if len(batch.refused) < _MOST_REFUSED:
            batch.refused.append((f"line {line.line}", _message(batch, line.error or "")))

    def progress(report: IngestReport, consumed: int) -> None:
        batch.report, batch.done = report, consumed

    batch.report = await collection.ingest(_lines(batch, columns), rejected=rejected, progress=progress)
    batch.done = batch.total


async def _store_documents(collection: Collection, batch: Upload) -> None:
    def progress(report: DocumentsReport, done: float, total: int) -> None:
        batch.report, batch.done, batch.total = report, int(done), total

    report = await collection.ingest_documents([batch.source], name=batch.source.name, progress=progress)
    batch.report = report
    batch.refused += [(name, _message(batch, why)) for name, why in report.failed]
    batch.refused += [(name, "it has no text") for name in report.empty]
    batch.refused += [
        (f"{number} × {name}", "files of this type are not read") for name, number in report.skipped.items()
    ]


async def progress(visit: Visit) -> h.Node:
    """The progress of storing."""
    return _progress(visit, _upload(visit))


def _progress(visit: Visit, batch: Upload) -> h.Node:
    refresh: dict[str, str] = {}
    if batch.is_running:
        address = visit.url("/data/progress", upload=visit.text("upload"))
        refresh = {"hx_get": address, "hx_trigger": "every 500ms", "hx_target": "#upload", "hx_swap": "innerHTML",
                   "hx_sync": "#upload:abort"}  # fmt: skip
    outcome: h.Node = problem_box("Nothing was stored", "The upload contains nothing that can be stored.")
    if _has_items(batch.report):
        outcome = notice("Stored. ", h.a(href=visit.url("/search", collection=batch.collection))["Search it"], ".")
    return h.div(**refresh)[
        h.progress(value=str(batch.done), max=str(max(batch.total, 1)), aria_label="Progress") if refresh else None,
        problem_box("Storing ended early", batch.error) if batch.error else (None if batch.is_running else outcome),
        _counts(batch.report),
        table(("where", "why"), batch.refused, caption="Refused") if batch.refused else None,
    ]


def _has_items(report: IngestReport | DocumentsReport | None) -> bool:
    """Whether the collection has any item of the upload."""
    if isinstance(report, IngestReport):
        return report.read > 0
    return report is not None and report.added + report.changed + report.unchanged > 0


def _counts(report: IngestReport | DocumentsReport | None) -> h.Node:
    if report is None:
        return None
    if isinstance(report, IngestReport):
        facts = {"lines read": report.read, "refused": report.rejected}
        items, notes = report.items, report.without_text.notes(report.read)
    else:
        facts = {"documents new": report.added, "documents changed": report.changed, "unchanged": report.unchanged}
        items, notes = report.chunks, ()
    if report.cleaned:
        notes = (*notes, f"control and format characters were removed from {several(report.cleaned, 'text')}")
    if items.cut:
        notes = (*notes, f"{several(items.cut, 'item')} longer than the model reads: the rest is found only by words")
    counts = {
        **facts, "items new": items.added, "items changed": items.changed, "items unchanged": items.unchanged,
        "embedded": items.embedded, "waiting for a vector": items.pending,
    }  # fmt: skip
    return [
        h.dl[((h.dt[name], h.dd[f"{number:,}"]) for name, number in counts.items())],
        (h.p(".note")[note] for note in (*items.notes, *notes)),
    ]


async def item(visit: Visit) -> h.Node:
    """One item, read-only, or as a form with a key that may write."""
    collection, stored = await _stored_item(visit)
    return await page(visit, stored.item.title or stored.item.item_id, [
        _editing(visit, collection, stored) if visit.may(Scope.WRITE) else h.section(".card")[
            h.dl[((h.dt[name], h.dd[shown_value(value)]) for name, value in stored.as_dict().items())]
        ],
        h.p[h.a(href=visit.url("/data", collection=collection.name))["All items"]],
    ], chooses=False)  # fmt: skip


async def _stored_item(visit: Visit) -> tuple[Collection, StoredItem]:
    collection, key = await visit.collection(), visit.text("id")
    stored = (await collection.stored([key])).get(key) if key else None
    if stored is None:
        raise errors.UnknownItemError(f"collection {collection.name!r} has no item {written(key)}")
    return collection, stored


def _editing(visit: Visit, collection: Collection, stored: StoredItem) -> h.Node:
    item = stored.item
    fields = {
        "collection": collection.name, "id": item.item_id, "version": stored.version, "title": item.title,
        "body": item.body, "tags": "\n".join(item.tags), "kind": item.kind, "status": item.status,
        "source": item.source,
        "attributes": json.dumps(dict(item.attributes), ensure_ascii=False, indent=2, default=str),
    }  # fmt: skip
    return [
        _form(visit, fields, h.span[f"changed {shown_value(stored.updated_at)}"]),
        h.form(method="post", action=visit.url("/data/delete"))[
            (h.input(type="hidden", name=name, value=fields[name]) for name in ("collection", "id", "version")),
            h.details[
                h.summary["Delete this item"],
                h.p["A deleted item cannot be restored. ", h.button(".danger", type="submit")["Delete it"]],
            ],
        ],
    ]  # fmt: skip


def _form(visit: Visit, fields: Mapping[str, str], *facts: h.Node) -> h.Node:
    """The form of an item with these texts of its fields."""
    return h.form(".card", method="post", action=visit.url("/data/save"))[
        (h.input(type="hidden", name=name, value=fields[name]) for name in ("collection", "id", "version")),
        h.p(".facts")[h.span[fields["id"]], facts],
        text_field("title", "title", fields["title"]),
        text_area("body", "text", fields["body"], rows="12"),
        text_area("tags", "tags, one per line", fields["tags"]),
        h.div(".cards")[(text_field(name, name, fields[name]) for name in ("kind", "status", "source"))],
        text_area("attributes", "attributes, as JSON", fields["attributes"]),
        h.p[h.button(type="submit")["Save"]],
    ]


_FIELDS = ("collection", "id", "version", "title", "body", "tags", "kind", "status", "source", "attributes")


async def save(visit: Visit) -> Response:
    """Change the item, unless it was changed by another user since it was opened.

    If that is refused, the form comes again with what was typed.
    """
    address = visit.url("/data/item", collection=visit.text("collection"), id=visit.text("id"))
    try:
        await _save(visit)
    except errors.RetrievalError as error:
        report(error)
        problem = problem_of(error)
        content = [
            problem_box(problem["title"], problem["detail"]),
            _form(visit, {name: visit.text(name) for name in _FIELDS}),
            h.p[h.a(href=address)["The item as it is stored"]],
        ]
        refused = await page(visit, "That did not work", content, chooses=False)
        return HTMLResponse(str(refused), problem["status"], headers_of(error))
    return RedirectResponse(address, 303)


async def _save(visit: Visit) -> None:
    collection, stored = await _stored_item(visit)
    new_item = replace(
        stored.item, title=visit.text("title"), body=visit.text("body").replace("\r\n", "\n"),
        kind=visit.text("kind"), status=visit.text("status") or "active", source=visit.text("source"),
        tags=tuple(tag for part in visit.text("tags").split("\n") if (tag := part.strip())),
        attributes=object_of("attributes", visit.text("attributes") or None),
    )  # fmt: skip
    await collection.put(new_item, version=visit.text("version"))


async def delete(visit: Visit) -> Response:
    """Remove the item with its vectors, unless it was changed by another user since it was opened."""
    collection, stored = await _stored_item(visit)
    await collection.delete([stored.item.item_id], version=visit.text("version"))
    return RedirectResponse(visit.url("/data", collection=collection.name), 303)


ROUTES: tuple[Route, ...] = (
    view("/data", data, needs=Scope.READ),
    view("/data/item", item, needs=Scope.READ),
    view("/data/save", save, needs=Scope.WRITE, method="POST"),
    view("/data/delete", delete, needs=Scope.WRITE, method="POST"),
    view("/data/upload", upload, needs=Scope.WRITE, method="POST"),
    view("/data/preview", preview, needs=Scope.WRITE, method="POST"),
    view("/data/store", store, needs=Scope.WRITE, method="POST"),
    view("/data/progress", progress, needs=Scope.WRITE),
)
