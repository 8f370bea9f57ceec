"""The judged test collections that the benchmarks use, in BEIR's format, one folder each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from retrieval import Collection, Platform, read_items
from retrieval.services.judgements import JudgedQuery, Qrels, judged, read_judged


@dataclass(frozen=True)
class Task:
    """Judged queries over a collection."""

    name: str
    collection: str
    qrels: str = "qrels.tsv"
    where_from: tuple[str, ...] = ()
    drop_self: str | None = None

    def queries(self, data: Path) -> tuple[list[JudgedQuery], Qrels]:
        """The queries that have a relevant item, with their filters, and the judgements."""
        folder = data / self.collection
        asked, qrels = read_judged(
            folder / "queries.jsonl", folder / self.qrels, where_from=self.where_from, drop_self=self.drop_self
        )
        return judged(asked, qrels), qrels

    async def ingested(self, platform: Platform, data: Path) -> Collection:
        """The collection, filled; a second time at no cost."""
        collection = await platform.collection(self.collection)
        await collection.ingest(read_items(data / self.collection / "corpus.jsonl.gz"))
        return collection


SCIFACT_TRAIN = Task("scifact train", "scifact", "qrels_train.tsv")
SCIFACT = Task("scifact", "scifact")
CRANFIELD = Task("cranfield", "cranfield")
TICKETS = Task(
    "tickets_hadoop", "tickets_hadoop", where_from=("metadata.as_of>=occurred_at",), drop_self="metadata.self_id"
)
VASWANI = Task("vaswani", "vaswani")
LOCOMO = Task("locomo", "locomo", where_from=("metadata.conversation=conversation",))
CISI = Task("cisi", "cisi")
"""Abstracts and questions of information science (Fox, 1983); not among the project's own test data."""
NFCORPUS = Task("nfcorpus", "nfcorpus")
"""Medical abstracts and questions on nutrition (Boteva et al., ECIR 2016); not among the project's own test data."""
