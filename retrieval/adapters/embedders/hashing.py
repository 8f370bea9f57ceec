"""Vectors without a model, for tests and dry runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from retrieval.adapters.embedders.batching import batches, prepared
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole, Vector, Vectors
from retrieval.domain.words import word_pattern

_TRIGRAM_WEIGHT = 0.3
# One step on another thread: long enough to outweigh the hand-over, short enough to be cancelled soon.
_TEXTS_A_STEP = 64
_CHARACTERS_A_STEP = 200_000


def hashed_vector(text: str, dimensions: int, seed: int = 0) -> Vector:
    """A vector of a text's words and character trigrams: shape (dimensions,), float32, unit length.

    Signed feature hashing: Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", 2009. A text
    without features, or whose features cancel out, has a fixed vector.
    """
    vector = np.zeros(dimensions, dtype=np.float64)
    for feature, weight in _features(text.casefold()):
        place, sign = _slot(feature, dimensions, seed)
        vector[place] += sign * weight
    length = float(np.linalg.norm(vector))
    if length < 1e-9:
        vector[0] = length = 1.0
    return (vector / length).astype(np.float32)


def _features(text: str) -> Iterator[tuple[str, float]]:
    words = word_pattern(r"[\w{marks}]+", text).findall(text)
    if not words and text.strip():
        yield "=" + text.strip(), 1.0
    for word in words:
        yield word, 1.0
        bounded = f"<{word}>"
        for start in range(len(bounded) - 2):
            yield "~" + bounded[start : start + 3], _TRIGRAM_WEIGHT


@lru_cache(maxsize=2**16)
def _slot(feature: str, dimensions: int, seed: int) -> tuple[int, float]:
    """The dimension that a feature counts in, and its sign."""
    digest = blake2b(feature.encode(), digest_size=8, key=str(seed).encode()).digest()
    number = int.from_bytes(digest, "big")
    return (number >> 1) % dimensions, 1.0 if number & 1 else -1.0


class HashingEmbedder:
    """Embeds by hashing words and spellings, not meanings: for tests and dry runs only."""

    def __init__(
        self, dimensions: int = 256, *, seed: int = 0, document_prefix: str = "", query_prefix: str = ""
    ) -> None:
        """``dimensions`` is 1 to 4000; another ``seed`` is another space. Raises ``ConfigurationError``."""
        self._seed = seed
        self.space = EmbeddingSpace(
            provider="hashing",
            model="words-and-trigrams",
            revision="1" if seed == 0 else f"1-seed-{seed}",
            dimensions=dimensions,
            document_prefix=document_prefix,
            query_prefix=query_prefix,
        )

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """One vector a text, in order: shape (len(texts), dimensions), float32, unit length.

        Raises ``EmbedderRejectedError`` for a string instead of a sequence of strings.
        """
        texts_with_prefix = prepared(texts, role, self.space)
        rows = np.zeros((len(texts_with_prefix), self.space.dimensions), dtype=np.float32)
        sizes = [len(text) for text in texts_with_prefix]
        for step in batches(sizes, max_items=_TEXTS_A_STEP, max_size=_CHARACTERS_A_STEP):
            rows[step.start : step.stop] = await asyncio.to_thread(
                self._hash, texts_with_prefix[step.start : step.stop]
            )
        return rows

    def _hash(self, texts: Sequence[str]) -> Vectors:
        return np.stack([hashed_vector(text, self.space.dimensions, self._seed) for text in texts])

    async def aclose(self) -> None:
        """Do nothing: there is nothing to release."""
