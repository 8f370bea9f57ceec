"""``retrieval import-langchain``: copies a store of langchain-postgres into a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli import output
from retrieval.surfaces.cli.options import CollectionName, Json, Quiet, State, state_of
from retrieval.surfaces.cli.output import Step, plain_name, print_answer, progress, tell
from retrieval.surfaces.cli.run import CONTINUES, run

if TYPE_CHECKING:
    from retrieval.adapters.readers.langchain_postgres import LangChainStore
    from retrieval.platform import Platform
    from retrieval.surfaces.langchain.migrate import CopyReport


EXAMPLES = (
    "retrieval import-langchain docs --from postgresql://user@localhost/app --name my_docs",
    "retrieval import-langchain docs --from postgresql://user@localhost/app --table my_table",
)

_SOURCE = "RETRIEVAL_SOURCE_URL"


def import_langchain(
    context: typer.Context,
    *,
    collection: CollectionName,
    url: Annotated[
        str,
        typer.Option(
            "--from", envvar=_SOURCE, metavar="URL", help="The store's database; a password is safer in the variable."
        ),
    ],
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The collection of a PGVector.")] = None,
    table: Annotated[str | None, typer.Option(metavar="NAME", help="The table of a PGVectorStore.")] = None,
    schema: Annotated[str, typer.Option(metavar="NAME", help="Where its tables are.")] = "public",
    content: Annotated[
        str | None, typer.Option("--content-column", metavar="NAME", help="The texts' column; else content.")
    ] = None,
    metadata: Annotated[
        str | None, typer.Option("--metadata-column", metavar="NAME", help="The JSON's; else langchain_metadata.")
    ] = None,
    embedding: Annotated[
        str | None, typer.Option("--embedding-column", metavar="NAME", help="The vectors', if there are several.")
    ] = None,
    skip: Annotated[bool, typer.Option("--skip-bad", help="Leave out documents that cannot be stored.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Copy a store of langchain-postgres: ids, texts, metadata and vectors.

    Nothing is embedded again, so the collection needs the embedder that made
    the vectors. Existing documents are not changed: run an interrupted copy
    again to complete it.
    """
    from retrieval.adapters.readers.langchain_postgres import LangChainStore

    store = LangChainStore(
        name=name, table=table, schema=schema,
        content_column=content, metadata_column=metadata, embedding_column=embedding,
    )  # fmt: skip
    report = _copy(state_of(context), url, store, collection, skip=skip, quiet=quiet)
    counts = report.as_dict()
    rows = ((plain_name(name), number) for name, number in counts.items())
    shown = output.table(["documents", "count"], rows)
    print_answer({"collection": collection, **counts}, shown, as_json=as_json, quiet=quiet)


def _copy(state: State, url: str, store: LangChainStore, collection: str, *, skip: bool, quiet: bool) -> CopyReport:
    from retrieval.surfaces.langchain.migrate import copy_store

    def report_skipped(item_id: str, why: str) -> None:
        tell(f"left out {item_id!r}: {why}")

    async def work(platform: Platform) -> CopyReport:
        target = await platform.collection(collection)
        with progress(f"import {collection}", "document", quiet=quiet) as update:
            return await copy_store(
                url, store, target,
                rejected=report_skipped if skip else None,
                progress=lambda report: update(Step(report.read, None, report.read)),
            )  # fmt: skip

    return run(state, work, when_interrupted=CONTINUES)
