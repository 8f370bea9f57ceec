"""``retrieval import-langchain``: copies a store of langchain-postgres into a collection."""

from __future__ import annotations

from typing import Annotated

import typer

from retrieval.surfaces.cli import output
from retrieval.surfaces.cli.options import CollectionName, Json, Quiet, command, flag, option
from retrieval.surfaces.cli.output import Step, plain_name, print_answer, progress, tell
from retrieval.surfaces.cli.run import CONTINUES, opened

app = typer.Typer()


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
    table: Annotated[str | None, option("NAME", "The table of a PGVectorStore.")] = None,
    schema: Annotated[str, option("NAME", "Where its tables are.")] = "public",
    content: Annotated[str | None, option("NAME", "The texts' column; else content.", "--content-column")] = None,
    metadata: Annotated[str | None, option("NAME", "The JSON's; else langchain_metadata.", "--metadata-column")] = None,
    embedding: Annotated[
        str | None, option("NAME", "The vectors', if there are several.", "--embedding-column")
    ] = None,
    skip: Annotated[bool, flag("Leave out documents that cannot be stored.", "--skip-bad")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Copy a store of langchain-postgres: ids, texts, metadata and vectors.

    Nothing is embedded again, so the collection needs the embedder that made
    the vectors. Run an interrupted copy again to complete it.
    """
    from retrieval.adapters.readers.langchain_postgres import LangChainStore
    from retrieval.surfaces.langchain.migrate import copy_store

    store = LangChainStore(
        name=name, table=table, schema=schema,
        content_column=content, metadata_column=metadata, embedding_column=embedding,
    )  # fmt: skip

    def report_skipped(item_id: str, why: str) -> None:
        tell(f"left out {item_id!r}: {why}")

    with (
        opened(when_interrupted=CONTINUES) as (platform, wait),
        progress(f"import {collection}", "document", quiet=quiet) as update,
    ):
        report = wait(
            copy_store(
                url, store, wait(platform.collection(collection)),
                rejected=report_skipped if skip else None,
                progress=lambda report: update(Step(report.read, None, report.read)),
            )
        )  # fmt: skip
    counts = report.as_dict()
    shown = output.table(["documents", "count"], ((plain_name(name), number) for name, number in counts.items()))
    print_answer({"collection": collection, **counts}, shown, as_json=as_json, quiet=quiet)
