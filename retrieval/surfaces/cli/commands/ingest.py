"""``retrieval ingest`` and ``import-langchain``: files, documents, and a store of LangChain's, in a collection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from retrieval.adapters.readers.folders import find_documents, holds_documents
from retrieval.adapters.readers.records import mapped_columns
from retrieval.domain.errors import BadLineError, InvalidRequestError, UnknownCollectionError
from retrieval.domain.items.chunking import DEFAULT_OVERLAP, DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS, Chunking
from retrieval.domain.items.collection import IndexKind
from retrieval.domain.wording import several
from retrieval.surfaces.cli.input_files import InputFiles, RejectedLines
from retrieval.surfaces.cli.options import (
    CollectionName,
    Quiet,
    argument,
    command,
    filterable_of,
    flag,
    has_terminal,
    json_file,
    option,
)
from retrieval.surfaces.cli.output import Step, plain_name, print_answer, progress, report_pending, table, tell
from retrieval.surfaces.cli.run import CONTINUES, opened

if TYPE_CHECKING:
    from rich.table import Table

    from retrieval.adapters.embedders.chosen import ChosenService
    from retrieval.collection import Collection
    from retrieval.platform import Platform
    from retrieval.services.add import AddReport
    from retrieval.services.documents import DocumentsReport
    from retrieval.services.ingest import IngestReport


def ingest_files(options: RunOptions, source: InputFiles, rejects: Path | None, *, skip: bool) -> None:
    """Store the items of the files, and print a summary; ``skip`` puts bad lines aside, in ``rejects`` if given.

    Raises ``RetrievalError``.
    """
    if rejects is not None and not skip:
        raise InvalidRequestError("--rejects is where --on-error skip puts bad lines; give both, or neither")
    with RejectedLines(rejects, inputs=source.names, headers=source.headers) as rejected:
        report = _ingest(options, source, rejected if skip else None)
    value = {"collection": options.collection, **report.as_dict(), "rejects": list(map(str, rejected.paths))}
    counts = {plain_name(name): number for name, number in value.items() if isinstance(number, int)}
    made = [_IDS_MADE.format(source.id_from)] if source.id_from is not None else []
    cleaned = [_CLEANED.format(report.cleaned)] if report.cleaned else []
    print_answer(
        {**value, "notes": [*made, *value["notes"], *cleaned]},
        [table(["items", "count"], counts.items()), *(f"note: {note}" for note in (*made, *report.items.notes))],
        quiet=options.quiet,
    )
    if report.rejected:
        bad = several(report.rejected, "bad line")
        aside = f"{bad} put aside in {', '.join(value['rejects'])}; correct and ingest that file"
        if not report.read:
            raise InvalidRequestError(f"no item could be stored: {aside}")
        tell(aside)
    for note in (*report.without_text.notes(report.read), *cleaned):
        tell(f"note: {note}")
    if not report.read + report.rejected:
        tell(f"note: there are no items in {', '.join(source.names)}")
    warn_cut(report.items)
    report_pending(report.items.pending)


def _ingest(options: RunOptions, source: InputFiles, rejected: RejectedLines | None) -> IngestReport:
    from retrieval.apps.tickets.ticket_item import TICKET_FILTERABLE
    from retrieval.services.ingest import IngestReport, checked_first_batch

    stored = IngestReport()

    def follow(report: IngestReport, offset: int) -> None:
        nonlocal stored
        stored = report
        update(Step(offset, source.total_bytes, report.read, vectors=report.items.embedded))

    with opened(when_interrupted=CONTINUES, leaves_threads=True) as (platform, wait):
        try:
            lines, has_items = checked_first_batch(source.lines(), options.schema, skip=rejected is not None)
            if source.holds_tickets:
                options = replace(options, filterable={**TICKET_FILTERABLE, **options.filterable})
            if not has_items and wait(options.is_new(platform)):
                bad = list(lines)
                if rejected is not None:
                    for line in bad:
                        rejected.add(line)
                return IngestReport(rejected=len(bad))
            collection = wait(options.opened(platform, source.text_bytes))
            with progress(f"ingest {options.collection}", "item", quiet=options.quiet) as update:
                add = None if rejected is None else rejected.add
                return wait(collection.ingest(lines, rejected=add, prune=options.prune, progress=follow))
        except BadLineError as error:
            reason = (
                f"{error.reason}; stored before it: {several(stored.read, 'item')}; correct the line and run the "
                "same command again to continue, or put bad lines aside with --on-error skip"
            )
            raise BadLineError(error.file, error.line, reason) from error


_IDS_MADE = "an item without an id gets a hash of {0} as id: a changed one is another item; --prune archives the former"
_CLEANED = "items from whose texts control and format characters were removed: {0:,}; --no-clean refuses their lines"


MAX_NAMES = 10
"""The number of names of a kind that are shown."""

_BYTES_A_TOKEN = 4
"""The usual number in English text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of every ingest."""

    collection: str
    prune: bool
    language: str | None
    filterable: Mapping[str, str]
    schema: Mapping[str, Any] | None
    index: str | None
    quiet: bool
    yes: bool

    async def is_new(self, platform: Platform) -> bool:
        """Whether there is no such collection yet."""
        try:
            await platform.collection(self.collection, create=False)
        except UnknownCollectionError:
            return True
        return False

    async def opened(self, platform: Platform, text_bytes: int | None) -> Collection:
        """The collection, created if missing.

        Raises ``InvalidRequestError`` for one of another language, and if the user refuses to send texts.
        """
        await announce_destination(platform, self.collection, text_bytes, yes=self.yes)
        collection = await platform.collection(self.collection, language=self.language or "english", schema=self.schema)
        made_with = self.language and (await collection.info()).text_search_config
        if made_with != self.language:
            raise InvalidRequestError(
                f"collection {self.collection!r} was made with the language {made_with!r}, which cannot be "
                "changed; leave --language out, or ingest into another collection"
            )
        return await platform.collection(self.collection, filterable=self.filterable, index=self.index)


def ingest_paths(options: RunOptions, paths: Sequence[str], chunking: Chunking, name: str | None) -> None:
    """Ingest the documents of the files and folders, and print a summary.

    ``name`` of one folder: its name in the collection. Raises ``RetrievalError``; also, at the end, if documents
    could not be read.
    """
    from retrieval.services.documents import DocumentsReport, check_some_fit

    with opened(when_interrupted=CONTINUES, leaves_threads=True) as (platform, wait):
        # Before a collection is created.
        found = find_documents(paths, name)
        is_new = wait(options.is_new(platform))
        if is_new:
            check_some_fit(found.files, options.schema, chunking)
        if is_new and not found.files:
            report = DocumentsReport(failed=found.unreadable, skipped=found.skipped)
        else:
            collection = wait(options.opened(platform, sum(file.size for file in found.files)))
            with progress(f"ingest {options.collection}", "document", quiet=options.quiet) as update:

                def follow(report: DocumentsReport, done: float, total: int) -> None:
                    update(Step(done, total, int(done), vectors=report.chunks.embedded))

                report = wait(
                    collection.ingest_documents(
                        paths, chunking=chunking, name=name, prune=options.prune, progress=follow
                    )
                )
    lines = [f"note: {note}" for note in (*report.notes, *_left_out(report, is_pruned=options.prune))]
    value = {"collection": options.collection, **report.as_dict()}
    print_answer(value, [_summary(report), *lines], quiet=options.quiet)
    for document, reason in report.failed[:MAX_NAMES]:
        tell(f"failed: {document}: {reason}")
    if len(report.failed) > MAX_NAMES:
        tell(f"failed: and {len(report.failed) - MAX_NAMES:,} more; --json names all")
    if not (report.added + report.changed + report.unchanged + len(report.failed) + len(report.empty)):
        tell(f"note: there are no documents in {', '.join(paths)}")
    warn_cut(report.chunks)
    if report.failed:
        raise InvalidRequestError(
            f"{several(len(report.failed), 'document')} could not be read; what was stored of them stays"
        )
    report_pending(report.chunks.pending)


def _summary(report: DocumentsReport) -> Table:
    documents = {name: getattr(report, name) for name in ("added", "changed", "unchanged", "removed")}
    documents |= {"failed": len(report.failed), "without text": len(report.empty), "cleaned": report.cleaned}
    chunks = {plain_name(name): number for name, number in report.chunks.as_dict().items() if isinstance(number, int)}
    chunks["removed"] = report.chunks_removed
    names = dict.fromkeys([*documents, *chunks])
    rows = [(name, documents.get(name, ""), chunks.get(name, "")) for name in names]
    return table(["", "documents", "chunks"], rows, right=("documents", "chunks"))


def _left_out(report: DocumentsReport, *, is_pruned: bool) -> Iterator[str]:
    if report.vanished and not (is_pruned and report.removed):
        advice = "" if is_pruned else "; --prune removes them"
        yield f"no longer in the folders: {_name_list(report.vanished)}{advice}"
    if report.empty:
        scans = "; scanned pages need OCR first" if any(name.lower().endswith(".pdf") for name in report.empty) else ""
        yield f"without text: {_name_list(report.empty)}{scans}"
    if report.skipped:
        yield f"left out: {_name_list([f'{number:,} {name}' for name, number in report.skipped.items()])}"


def _name_list(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return f"{', '.join(names[:MAX_NAMES])}{more}"


def warn_cut(report: AddReport) -> None:
    """Print how many items were too long for their model."""
    if report.cut:
        tell(
            f"note: {several(report.cut, 'item')} longer than the model reads: the rest is found only by its words; "
            "stored as documents, texts are chunked"
        )


async def announce_destination(platform: Platform, collection: str, text_bytes: int | None, *, yes: bool) -> None:
    """Say where texts are sent, if they leave this machine; ask, if ``OPENAI_API_KEY`` alone has chosen that.

    It says so for a new collection, and on a terminal for any. On a terminal it asks before a new collection, unless
    ``RETRIEVAL_EMBEDDER`` is set. For a new collection whose texts stay on this machine, it says if their model knows
    only English. Raises ``InvalidRequestError`` for the answer no: nothing is stored.
    """
    from retrieval.adapters.embedders.chosen import is_english_alone, service_in_use
    from retrieval.adapters.endpoints.endpoint import shown_address

    is_terminal = has_terminal()
    try:
        space = await (await platform.collection(collection, create=False)).space()
    except UnknownCollectionError:
        space = None
    if space is not None and not is_terminal:
        return
    chosen = service_in_use(platform.settings, space)
    if chosen is None:
        if space is None and is_english_alone(platform.settings):
            tell("note: all-MiniLM-L6-v2 knows English only; for other languages: RETRIEVAL_EMBEDDER=ollama:bge-m3")
        return
    model = chosen.model or "the model that it serves"
    tell(
        f"note: texts are sent to {shown_address(chosen.url)}, to be embedded by {model}{_price(chosen, text_bytes)}; "
        "RETRIEVAL_EMBEDDER=minilm keeps them on this machine"
    )
    is_implicit = space is None and platform.settings.embedder == "auto"
    if yes or not is_implicit or not is_terminal:
        return
    if not typer.confirm("OPENAI_API_KEY is set, RETRIEVAL_EMBEDDER is not. Send them?", err=True):
        raise InvalidRequestError("nothing was sent or stored; choose by RETRIEVAL_EMBEDDER=openai, minilm or none")


def _price(chosen: ChosenService, text_bytes: int | None) -> str:
    """``: about 1,200 tokens, some $0.12 by its list price``; empty if the number of bytes is unknown."""
    if not text_bytes:
        return ""
    from retrieval.adapters.embedders.services import known_model

    tokens = max(text_bytes // _BYTES_A_TOKEN, 1)
    known = known_model(chosen.model)
    # A proxy may have its own prices.
    if not known or known.dollars is None or not chosen.service.key_variable or chosen.url != chosen.service.url:
        return f": about {several(tokens, 'token')}"
    price = tokens * known.dollars / 1e6
    amount = f"some ${price:,.2f}" if price >= 0.01 else "less than $0.01"
    return f": about {several(tokens, 'token')}, {amount} by its list price"


app = typer.Typer()


@command(
    app,
    "retrieval ingest tickets tickets.jsonl.gz",
    "retrieval ingest tickets historical_tickets.csv",
    "retrieval ingest notes notes.csv --map id=number --on-error skip",
    "retrieval ingest notes pages.jsonl --no-clean",
    "retrieval ingest docs ./handbook --prune",
    "retrieval ingest tickets tickets.jsonl --filterable priority:text --filterable hours:number",
)
def ingest(
    *,
    collection: CollectionName,
    files: Annotated[
        list[str],
        argument("FILE", "Files, plain or gzipped, or folders of documents; - is standard input.", show_default=False),
    ],
    file_format: Annotated[
        Literal["jsonl", "csv"] | None, typer.Option("--format", "-f", help="The files' format; else by their names.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        option(
            "FIELD=NAME",
            "A column, or an entry of JSON, for a field: text=description. May be repeated.",
            "--map",
            "-m",
        ),
    ] = None,
    id_from: Annotated[str | None, option("NAME", "For JSON without ids: the entry whose hash is the id.")] = None,
    on_error: Annotated[
        Literal["stop", "skip"],
        typer.Option("--on-error", help="What to do with a bad line: stop, or put it aside and continue."),
    ] = "stop",
    rejects: Annotated[
        Path | None, option("FILE", "The file for bad lines; else NAME.rejects.jsonl or .csv in this folder.")
    ] = None,
    clean: Annotated[
        bool,
        flag(
            "Remove control and format characters, and report from how many items; or refuse the line. "
            "An id with one is refused.",
            "--clean/--no-clean",
        ),
    ] = True,
    name: Annotated[str | None, option("NAME", "For one folder: its name in the collection.")] = None,
    prune: Annotated[
        bool, flag("Archive items that are not in the files; remove documents that are not in the folders.", "--prune")
    ] = False,
    language: Annotated[
        str | None, option("NAME", "Text search configuration of a new collection; else english.")
    ] = None,
    filterable: Annotated[
        list[str] | None, option("ATTRIBUTE:TYPE", "An attribute to index: priority:text. May be repeated.")
    ] = None,
    schema: Annotated[
        str | None, option("FILE", "JSON Schema of a new collection's attributes; other lines are bad.")
    ] = None,
    index: Annotated[
        IndexKind | None,
        typer.Option("--index", help="What an HNSW index stores of each vector: all of it, or one bit per dimension."),
    ] = None,
    chunk_tokens: Annotated[
        int,
        option("N", "For documents: tokens of a chunk, if the model reads that many.", min=MIN_TOKENS, max=MAX_TOKENS),
    ] = DEFAULT_TOKENS,
    overlap: Annotated[int, option("N", "For documents: tokens that chunks of a section share.")] = DEFAULT_OVERLAP,
    yes: Annotated[bool, flag("Do not ask before texts are sent to a service.", "--yes", "-y")] = False,
    quiet: Annotated[bool, flag("No progress and no summary; only faults.", "--quiet", "-q")] = False,
) -> None:
    """Store items from files, or documents from files and folders, and make them searchable.

    The collection is created if it is missing. Unchanged items cost nothing:
    run an interrupted command again to complete it.

    JSON Lines have one object per line: id, title, text, tags, metadata.
    CSV begins with a header line; the columns of tickets need no --map.
    --map maps other names to fields; attributes.NAME is an attribute.

    Documents are Markdown, HTML, PDF, DOCX, source code and plain text. They
    are stored as chunks; unreadable ones are reported, and the others stored.
    """
    options = RunOptions(
        collection=collection, prune=prune, language=language, filterable=filterable_of(filterable or ()),
        schema=json_file("--schema", schema), index=index, quiet=quiet, yes=yes,
    )  # fmt: skip
    if file_format is None and any(map(holds_documents, files)):
        for option, value in (("--map", columns), ("--id-from", id_from), ("--rejects", rejects)):
            if value:
                raise InvalidRequestError(f"{option} is for files of items; documents are stored as they are")
        ingest_paths(options, files, Chunking(max_tokens=chunk_tokens, overlap=overlap), name)
        return
    if name is not None:
        raise InvalidRequestError("--name is for a folder or a file of documents; items have ids of their own")
    source = InputFiles(
        files, columns=mapped_columns(columns or ()), file_format=file_format, clean=clean, id_from=id_from
    )
    ingest_files(options, source, rejects, skip=on_error == "skip")


@command(
    app,
    "retrieval import-langchain docs --from postgresql://user@localhost/app --name my_docs",
    "retrieval import-langchain docs --from postgresql://user@localhost/app --table my_table",
)
def import_langchain(
    *,
    collection: CollectionName,
    url: Annotated[
        str,
        option(
            "URL", "The store's database; a password is safer in the variable.", "--from", envvar="RETRIEVAL_SOURCE_URL"
        ),
    ],
    name: Annotated[str | None, option("NAME", "The collection of a PGVector.")] = None,
    table_name: Annotated[str | None, option("NAME", "The table of a PGVectorStore.", "--table")] = None,
    schema: Annotated[str, option("NAME", "The schema of its tables.")] = "public",
    content: Annotated[str | None, option("NAME", "The column of the texts; else content.", "--content-column")] = None,
    metadata: Annotated[
        str | None, option("NAME", "The column of the metadata; else langchain_metadata.", "--metadata-column")
    ] = None,
    embedding: Annotated[
        str | None, option("NAME", "The column of the vectors, if there are several.", "--embedding-column")
    ] = None,
    skip: Annotated[bool, flag("Leave out documents that cannot be stored.", "--skip-bad")] = False,
    quiet: Quiet = False,
) -> None:
    """Copy a store of langchain-postgres: ids, texts, metadata and vectors.

    Nothing is embedded again, so the collection needs the embedder that made
    the vectors. Run an interrupted copy again to complete it.
    """
    from retrieval.adapters.readers.langchain_postgres import LangChainStore, stored_documents
    from retrieval.surfaces.langchain.migrate import CopyReport, copy_store, target_of

    store = LangChainStore(
        name=name, table=table_name, schema=schema,
        content_column=content, metadata_column=metadata, embedding_column=embedding,
    )  # fmt: skip

    def report_skipped(item_id: str, why: str) -> None:
        tell(f"left out {item_id!r}: {why}")

    with (
        opened(when_interrupted=CONTINUES) as (platform, wait),
        progress(f"import {collection}", "document", quiet=quiet) as update,
    ):

        async def copied() -> CopyReport:
            # Read first, so that a source that cannot be read leaves no empty collection.
            async with aclosing(stored_documents(url, store, page=1)) as pages:
                await anext(pages, None)
            return await copy_store(
                url, store, await target_of(platform, collection),
                rejected=report_skipped if skip else None,
                progress=lambda report: update(Step(report.read, None, report.read)),
            )  # fmt: skip

        report = wait(copied())
    counts = report.as_dict()
    shown = table(["documents", "count"], ((plain_name(name), number) for name, number in counts.items()))
    print_answer({"collection": collection, **counts}, shown, quiet=quiet)
