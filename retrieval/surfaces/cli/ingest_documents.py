"""Ingests the documents of files and folders; and the notes of every ingest about texts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import typer

from retrieval.adapters.readers.folders import find_documents
from retrieval.domain.errors import InvalidRequestError, UnknownCollectionError
from retrieval.domain.items.chunking import Chunking
from retrieval.domain.wording import several
from retrieval.surfaces.cli.options import State, has_terminal
from retrieval.surfaces.cli.output import (
    Step,
    plain_name,
    print_answer,
    progress,
    report_pending,
    table,
    tell,
)
from retrieval.surfaces.cli.run import CONTINUES, run

if TYPE_CHECKING:
    from rich.table import Table

    from retrieval.adapters.embedders.chosen import ChosenService
    from retrieval.collection import Collection
    from retrieval.domain.items.embedding import EmbeddingSpace
    from retrieval.platform import Platform
    from retrieval.services.add import AddReport
    from retrieval.services.documents import DocumentsReport

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
    as_json: bool
    quiet: bool
    yes: bool

    async def opened(
        self, platform: Platform, text_bytes: int | None, *, filterable: Mapping[str, str] = MappingProxyType({})
    ) -> Collection:
        """The collection, created if missing; ``filterable`` is declared besides the attributes of the options.

        Raises ``InvalidRequestError`` for one of another language, and if the user refuses to send texts.
        """
        await announce_destination(platform, self.collection, text_bytes, yes=self.yes)
        collection = await platform.collection(
            self.collection,
            language=self.language or "english",
            filterable={**filterable, **self.filterable},
            schema=self.schema,
            index=self.index,
        )
        await check_language(collection, self.language)
        return collection


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOptions(RunOptions):
    """The options of an ingest of documents."""

    paths: tuple[str, ...]
    chunking: Chunking
    name: str | None
    refused: tuple[str, ...]
    """Given options that are only for items."""


def chunking_of(max_tokens: int, overlap: int) -> Chunking:
    """Return the settings for cutting documents, from the options. Raises a usage error."""
    try:
        return Chunking(max_tokens=max_tokens, overlap=overlap)
    except InvalidRequestError as error:
        name = "--overlap" if str(error).startswith("overlap") else "--chunk-tokens"
        raise typer.BadParameter(str(error), param_hint=name) from None


def ingest_paths(state: State, options: DocumentOptions) -> None:
    """Do the run that the options describe, and print its summary.

    Raises ``RetrievalError``; also, at the end, if documents could not be read.
    """
    if options.refused:
        raise InvalidRequestError(f"{options.refused[0]} is for files of items; documents are stored as they are")

    async def work(platform: Platform) -> DocumentsReport:
        # Before a collection is created.
        found = await asyncio.to_thread(find_documents, options.paths, options.name)
        collection = await options.opened(platform, sum(file.size for file in found.files))
        with progress(f"ingest {options.collection}", "document", quiet=options.quiet) as update:

            def follow(report: DocumentsReport, done: float, total: int) -> None:
                update(Step(done, total, int(done), vectors=report.chunks.embedded))

            return await collection.ingest_documents(
                options.paths,
                chunking=options.chunking,
                name=options.name,
                prune=options.prune,
                progress=follow,
            )

    report = run(state, work, when_interrupted=CONTINUES)
    _present(options, report)
    if report.failed:
        raise InvalidRequestError(
            f"{several(len(report.failed), 'document')} could not be read; what was stored of them stays"
        )
    report_pending(report.chunks.pending)


async def check_language(collection: Collection, language: str | None) -> None:
    """Raise ``InvalidRequestError`` if the collection was made with another language."""
    made_with = language and (await collection.info()).text_search_config
    if made_with != language:
        raise InvalidRequestError(
            f"collection {collection.name!r} was made with the language {made_with!r}, which cannot be "
            "changed; leave --language out, or ingest into another collection"
        )


def _present(options: DocumentOptions, report: DocumentsReport) -> None:
    lines = [f"note: {note}" for note in (*report.notes, *_left_out(report, is_pruned=options.prune))]
    value = {"collection": options.collection, **report.as_dict()}
    print_answer(value, [_summary(report), *lines], as_json=options.as_json, quiet=options.quiet)
    for name, reason in report.failed[:MAX_NAMES]:
        tell(f"failed: {name}: {reason}")
    if len(report.failed) > MAX_NAMES:
        tell(f"failed: and {len(report.failed) - MAX_NAMES:,} more; --json names all")
    if not (report.added + report.changed + report.unchanged + len(report.failed) + len(report.empty)):
        tell(f"note: there are no documents in {', '.join(options.paths)}")
    warn_cut(report.chunks)


def _summary(report: DocumentsReport) -> Table:
    documents = {name: getattr(report, name) for name in ("added", "changed", "unchanged", "removed")}
    documents |= {"failed": len(report.failed), "without text": len(report.empty), "cleaned": report.cleaned}
    chunks = {plain_name(name): number for name, number in report.chunks.as_dict().items() if isinstance(number, int)}
    chunks["removed"] = report.chunks_removed
    names = list(dict.fromkeys([*documents, *chunks]))
    rows = [(name, documents.get(name, ""), chunks.get(name, "")) for name in names]
    return table(["", "documents", "chunks"], rows, right=("documents", "chunks"))


def _left_out(report: DocumentsReport, *, is_pruned: bool) -> list[str]:
    lines = []
    if report.vanished and not (is_pruned and report.removed):
        advice = "" if is_pruned else "; --prune removes them"
        lines.append(f"no longer in the folders: {_name_list(report.vanished)}{advice}")
    if report.empty:
        has_pdf = any(name.lower().endswith(".pdf") for name in report.empty)
        scans = "; scanned pages need OCR first" if has_pdf else ""
        lines.append(f"without text: {_name_list(report.empty)}{scans}")
    if report.skipped:
        skipped = [f"{number:,} {name}" for name, number in list(report.skipped.items())[:MAX_NAMES]]
        lines.append(f"left out: {', '.join(skipped)}")
    return lines


def _name_list(names: tuple[str, ...]) -> str:
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

    space, is_new = await _space_of(platform, collection)
    is_terminal = has_terminal()
    if not (is_new or is_terminal) or (space is None and not is_new):
        return
    chosen = service_in_use(platform.settings, space)
    if chosen is None:
        if is_new and is_english_alone(platform.settings):
            tell("note: all-MiniLM-L6-v2 knows English only; for other languages: RETRIEVAL_EMBEDDER=ollama:bge-m3")
        return
    line = f"texts are sent to {_service_text(chosen)}{_price(chosen, text_bytes)}"
    tell(f"note: {line}; RETRIEVAL_EMBEDDER=minilm keeps them on this machine")
    is_implicit = is_new and platform.settings.embedder == "auto"
    if yes or not is_implicit or not is_terminal:
        return
    if not typer.confirm("OPENAI_API_KEY is set, RETRIEVAL_EMBEDDER is not. Send them?", err=True):
        raise InvalidRequestError("nothing was sent or stored; choose by RETRIEVAL_EMBEDDER=openai, minilm or none")


async def _space_of(platform: Platform, collection: str) -> tuple[EmbeddingSpace | None, bool]:
    """The collection's space, and whether it has yet to get one."""
    try:
        space = await (await platform.collection(collection, create=False)).space()
    except UnknownCollectionError:
        space = None
    return space, space is None


def _service_text(chosen: ChosenService) -> str:
    """The address, without a password in it, and the model."""
    from retrieval.adapters.endpoints.retries import shown_address

    return f"{shown_address(chosen.url)}, to be embedded by {chosen.model or 'the model that it serves'}"


def _price(chosen: ChosenService, text_bytes: int | None) -> str:
    if not text_bytes:
        return ""
    from retrieval.adapters.embedders.services import known_model

    tokens = max(text_bytes // _BYTES_A_TOKEN, 1)
    known = known_model(chosen.model)
    # A proxy may have its own prices.
    dollars = known.dollars if known and chosen.service.key_variable and chosen.url == chosen.service.url else None
    if dollars is None:
        return f": about {several(tokens, 'token')}"
    price = tokens * dollars / 1e6
    amount = f"some ${price:,.2f}" if price >= 0.01 else "less than $0.01"
    return f": about {several(tokens, 'token')}, {amount} by its list price"
