"""Stores of langchain-postgres, made by the library itself: what ``migration.py`` copies.

    python -m peers.langchain_made URL FOLDER

URL is SQLAlchemy's, FOLDER a corpus that ``Corpus.save`` wrote with ``questions.npy``. Prints as JSON what each store
finds for each question.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from corpora import Corpus
from langchain_postgres import Column, PGEngine, PGVector, PGVectorStore

from peers.langchain_store import NoEmbedder

K = 10
_BATCH = 1000


def main(url: str, folder: Path) -> None:
    """Make both stores and ask them."""
    corpus, questions = Corpus.read(folder), np.load(folder / "questions.npy")
    stores: dict[str, Any] = {"PGVector": PGVector(NoEmbedder(), connection=url, collection_name="articles")}
    engine = PGEngine.from_connection_string(url)
    engine.init_vectorstore_table(
        "articles",
        corpus.dimensions,
        id_column=Column("langchain_id", "TEXT", nullable=False),
        metadata_columns=[Column("category", "TEXT")],
    )
    stores["PGVectorStore"] = PGVectorStore.create_sync(engine, NoEmbedder(), "articles", metadata_columns=["category"])
    answers = {}
    for name, store in stores.items():
        for start in range(0, len(corpus), _BATCH):
            part = slice(start, start + _BATCH)
            store.add_embeddings(
                list(corpus.texts[part]),
                corpus.vectors[part].tolist(),
                metadatas=[dict(attribute) for attribute in corpus.attributes[part]],
                ids=list(corpus.ids[part]),
            )
        answers[name] = [
            [document.id for document in store.similarity_search_by_vector(vector.tolist(), k=K)]
            for vector in questions
        ]
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
