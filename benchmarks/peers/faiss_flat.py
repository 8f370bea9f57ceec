"""FAISS, flat, in memory, as a ticket system would: ask for three times as many, drop what does not match, cut."""

from __future__ import annotations

from collections.abc import Mapping

import faiss
from corpora import Corpus, Vectors, Where

OVER_FETCH = 3


class FaissFlat:
    """Exact without a filter; with one, only what is among the nearest thirty. It has no search by words."""

    plain = ("flat",)
    filtered = (f"over-fetch {OVER_FETCH} ×",)
    fusions = ()

    def __init__(self) -> None:
        self._corpus: Corpus | None = None

    async def load(self, url: str, corpus: Corpus) -> Mapping[str, float]:  # noqa: ARG002
        """The vectors, copied; texts and attributes stay where they are."""
        self._corpus = corpus
        self._index = faiss.IndexFlatIP(corpus.dimensions)
        self._index.add(corpus.vectors)
        return {}

    async def open(self) -> None:
        """Nothing to do."""

    async def dense(self, variant: str, vector: Vectors, k: int, where: Where) -> list[str]:  # noqa: ARG002
        """The nearest by inner product, filtered afterwards."""
        corpus = self._corpus
        if corpus is None:
            raise RuntimeError("nothing is loaded; call load first")
        _, numbers = self._index.search(vector.reshape(1, -1), k * OVER_FETCH if where else k)
        places = (
            int(place)
            for place in numbers[0]
            if place >= 0 and all(corpus.attributes[place][name] == value for name, value in where.items())
        )
        return [corpus.ids[place] for place in places][:k]

    async def hybrid(self, variant: str, text: str, vector: Vectors, k: int) -> list[str]:
        """There is none."""
        raise NotImplementedError("FAISS does not search words")

    async def close(self) -> None:
        """Nothing to do."""
