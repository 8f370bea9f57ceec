"""Embedding spaces, and the protocol of the embedders that fill them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.checks import checks_argument_names, is_storable, written
from retrieval.domain.errors import ConfigurationError, InvalidVectorError, WrongDimensionError
from retrieval.domain.items.item import text_hash

Vectors = NDArray[np.float32]
"""Shape (n, dimensions), one row a text."""

Vector = NDArray[np.float32]
"""Shape (dimensions,)."""

MAX_DIMENSIONS = 4000
"""The most dimensions of a ``halfvec`` that HNSW can index."""


MAX_LABEL_LENGTH = 500


class TextRole(StrEnum):
    """The role of a text in a search: some models embed documents and queries differently."""

    DOCUMENT = "document"
    QUERY = "query"


@checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpace:
    """A space of comparable vectors; two that differ in any field are never compared. Raises ``ConfigurationError``."""

    provider: str
    model: str
    revision: str = ""
    dimensions: int
    """1 to 4000."""
    distance: str = "cosine"
    document_prefix: str = ""
    query_prefix: str = ""

    def __post_init__(self) -> None:
        if type(self.dimensions) is not int or not 1 <= self.dimensions <= MAX_DIMENSIONS:
            raise ConfigurationError(
                f"{written(self.dimensions, 40)} dimensions: an embedding space has 1 to {MAX_DIMENSIONS}, "
                "the most that pgvector's HNSW can index as halfvec; ask the model for fewer"
            )
        if self.distance != "cosine":
            raise ConfigurationError(f"distance {written(self.distance)} is not supported; use 'cosine'")
        for name in ("provider", "model", "revision", "document_prefix", "query_prefix"):
            label, least = getattr(self, name), int(name in ("provider", "model"))
            if not is_storable(label) or not least <= len(label) <= MAX_LABEL_LENGTH:
                raise ConfigurationError(
                    f"{name} is {written(label)}; an embedding space needs a text of {least} to {MAX_LABEL_LENGTH} "
                    "characters without NUL"
                )

    @property
    def name(self) -> str:
        """A short name for people: ``minilm/all-MiniLM-L6-v2@1.0.0 (384)``."""
        revision = f"@{self.revision}" if self.revision else ""
        return f"{self.provider}/{self.model}{revision} ({self.dimensions})"

    def prefix(self, role: TextRole) -> str:
        """The prefix of texts in that role."""
        return self.query_prefix if role is TextRole.QUERY else self.document_prefix


def cache_key(space: EmbeddingSpace, role: TextRole, text: str) -> bytes:
    """The key that a text's vector is cached under, 32 bytes."""
    return text_hash(f"{role.value}: {space.prefix(role)}{text}")


class Embedder(Protocol):
    """Turns texts into vectors of one space; ``retrieval.testing.check_embedder`` is its conformance suite.

    One that has to load a model first may have an attribute ``needs_loading``: searches wait longer then. One whose
    model reads only the beginning of a long text may have ``max_tokens`` and ``count_tokens`` (see ``TokenMeasure``).
    """

    @property
    def space(self) -> EmbeddingSpace:
        """The space that the vectors belong to."""

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """One vector a text, in order: shape (len(texts), dimensions), float32, unit length.

        The space's prefix is put before each text. An empty sequence gives shape (0, dimensions).
        Raises ``EmbedderUnavailableError`` when trying again may help, ``EmbedderRejectedError`` when not.
        """

    async def aclose(self) -> None:
        """Release connections and threads."""


_MOST_CHARACTERS_A_TOKEN = 128
"""A text with more characters for each token that a model reads is certainly too long for the model."""

_USUAL_CHARACTERS_A_TOKEN = 8
"""In most texts, so many characters are more than one token."""


@dataclass(frozen=True, slots=True)
class TokenMeasure:
    """Measures texts in tokens of an embedder's model."""

    count_tokens: Callable[[Sequence[str]], Sequence[int]]
    """The tokens of each text as the model gets it, with the space's prefix and what the embedder adds."""
    max_tokens: int | None = None
    """The most tokens of one text that the model reads; None: unknown, or no limit."""
    around: int = 0
    """The most tokens that the embedder adds to a text, its prefix included."""
    refused_bytes: float = inf
    """The bytes of the shortest text, with its prefix, that a server refused as too long: its limit may be lower."""

    def number_cut(self, texts: Sequence[str]) -> int:
        """The number of texts that are longer than the model reads."""
        return 0 if self.max_tokens is None else sum(self._is_cut(text, self.max_tokens) for text in texts)

    def _is_cut(self, text: str, most: int) -> bool:
        # No token is shorter than a byte: most texts need not be split to see that they fit.
        fitting = min(most, self.refused_bytes - 1)
        if len(text) * 4 + self.around <= fitting or len(text.encode()) + self.around <= fitting:
            return False
        # Splitting a huge text would hold up the process; its length or its first words show that it is too long.
        if len(text) > most * _MOST_CHARACTERS_A_TOKEN:
            return True
        usual = most * _USUAL_CHARACTERS_A_TOKEN
        if len(text) > usual and self.count_tokens([text[:usual].rpartition(" ")[0]])[0] > most:
            return True
        return self.count_tokens([text])[0] > most


USUAL_LENGTHS = (1e-6, 1e6)
"""A vector whose length lies between these is finite and loses no digits, so no other check is needed."""


def numbers_of(values: object) -> NDArray[np.float64]:
    """The numbers as an array. Raises ``TypeError``, ``ValueError`` or ``OverflowError`` for anything else."""
    raw = np.asarray(values)
    # A complex number would lose its imaginary part with no more than a warning, and a text would pass for its number.
    return raw.astype(np.float64, casting="unsafe" if raw.dtype.kind == "O" else "same_kind")


def checked_vectors(vectors: object, space: EmbeddingSpace, keys: Sequence[str]) -> Vectors:
    """The vectors as (len(keys), dimensions) float32, unit length.

    ``keys`` name the rows in messages: ``the query``, or an id in quotation marks. Raises ``WrongDimensionError`` for
    another shape and ``InvalidVectorError`` for NaN, infinity and zero vectors, which no cosine distance can rank.
    """
    try:
        array = numbers_of(vectors)
    except (TypeError, ValueError, OverflowError):
        raise InvalidVectorError("vectors must be numbers, one row of the same length for each text") from None
    if len(keys) == 0:
        return np.zeros((0, space.dimensions), dtype=np.float32)
    if array.ndim != 2 or array.shape[0] != len(keys):
        raise InvalidVectorError(f"expected {len(keys)} vectors, got an array of shape {array.shape}")
    if array.shape[1] != space.dimensions:
        raise WrongDimensionError(
            f"the vector of {keys[0]} has {array.shape[1]} dimensions and the embedding space "
            f"{space.name} has {space.dimensions}; embed with that model, or use another collection"
        )
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", array, array))
    if not (lengths.min() > USUAL_LENGTHS[0] and lengths.max() < USUAL_LENGTHS[1]):
        array = _of_usual_length(array, keys)
        lengths = np.sqrt(np.einsum("ij,ij->i", array, array))
    unit: Vectors = (array / lengths[:, None]).astype(np.float32)
    return unit


def _of_usual_length(array: NDArray[np.float64], keys: Sequence[str]) -> NDArray[np.float64]:
    """The vectors with 1 as the largest number of each, so that no square overflows or vanishes."""
    largest: NDArray[np.float64] = np.abs(array).max(axis=1)
    finite = np.isfinite(largest)
    if not finite.all():
        raise InvalidVectorError(f"the vector of {keys[int(np.argmin(finite))]} holds NaN or infinity")
    if not largest.all():
        raise InvalidVectorError(f"the vector of {keys[int(np.argmin(largest))]} is zero; it has no direction")
    return array / largest[:, None]
