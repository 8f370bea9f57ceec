"""Ingests the documents of files and folders; and the notes of every ingest about texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from retrieval.adapters.readers.folders import find_documents
from retrieval.domain.errors import InvalidRequestError, UnknownCollectionError
from retrieval.domain.wording import several
from retrieval.surfaces.cli.options import has_terminal
from retrieval.surfaces.cli.output import Step, plain_name, print_answer, progress, report_pending, table, tell
from retrieval.surfaces.cli.run import CONTINUES, opened

if TYPE_CHECKING:
    from rich.table import Table

    from retrieval.adapters.embedders.chosen import ChosenService
    from retrieval.collection import Collection
    from retrieval.domain.items.chunking import Chunking
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

    async def opened(self, platform: Platform, text_bytes: int | None) -> Collection:
        """The collection, created if missing.

        Raises ``InvalidRequestError`` for one of another language, and if the user refuses to send texts.
        """
        await announce_destination(platform, self.collection, text_bytes, yes=self.yes)
        collection = await platform.collection(
            self.collection,
            language=self.language or "english",
            filterable=self.filterable,
            schema=self.schema,
            index=self.index,
        )
        made_with = self.language and (await collection.info()).text_search_config
        if made_with != self.language:
            raise InvalidRequestError(
                f"collection {self.collection!r} was made with the language {made_with!r}, which cannot be "
                "changed; leave --language out, or ingest into another collection"
            )
        return collection


def ingest_paths(options: RunOptions, paths: Sequence[str], chunking: Chunking, name: str | None) -> None:
    """Ingest the documents of the files and folders, and print a summary.

    ``name`` of one folder: its name in the collection. Raises ``RetrievalError``; also, at the end, if documents
    could not be read.
    """
    with opened(when_interrupted=CONTINUES) as (platform, wait):
        # Before a collection is created.
        found = find_documents(paths, name)
        collection = wait(options.opened(platform, sum(file.size for file in found.files)))
        with progress(f"ingest {options.collection}", "document", quiet=options.quiet) as update:

            def follow(report: DocumentsReport, done: float, total: int) -> None:
                update(Step(done, total, int(done), vectors=report.chunks.embedded))

            report = wait(
                collection.ingest_documents(paths, chunking=chunking, name=name, prune=options.prune, progress=follow)
            )
    lines = [f"note: {note}" for note in (*report.notes, *_left_out(report, is_pruned=options.prune))]
    value = {"collection": options.collection, **report.as_dict()}
    print_answer(value, [_summary(report), *lines], as_json=options.as_json, quiet=options.quiet)
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
    from retrieval.adapters.endpoints.caller import shown_address

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
