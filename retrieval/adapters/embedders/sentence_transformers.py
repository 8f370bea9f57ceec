"""Embed on this machine with any model of the library sentence-transformers, which the user installs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from retrieval.adapters.embedders.batching import prepared, without_repeats
from retrieval.adapters.embedders.services import prefixes_of
from retrieval.adapters.endpoints.breaker import EMBEDDER
from retrieval.adapters.local_models import LocalModel
from retrieval.domain.checks import written
from retrieval.domain.errors import EmbedderRejectedError, InvalidVectorError, MissingExtraError
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole, Vectors, checked_vectors
from retrieval.settings import SENTENCE_TRANSFORMERS

_TEXTS_A_BATCH = 16
"""A query waits for one batch of a long indexing run, not for the run."""

_DOCUMENT_PROMPTS, _QUERY_PROMPTS = ("document", "passage", "corpus"), ("query",)
"""The names of the prompts that models bring for the two roles."""


class SentenceTransformersEmbedder(LocalModel[Any]):
    """Embeds in a thread of its own (see ``LocalModel``).

    The prefixes of its space are the model's own prompts for documents and queries, else those of ``prefixes_of``.
    """

    def __init__(self, space: EmbeddingSpace, model: Any = None) -> None:
        """``model``: the library's model, if it is loaded already."""
        self.space = space
        super().__init__(EMBEDDER, lambda: _load(space.model), loaded=model)

    @classmethod
    async def load(cls, name: str) -> SentenceTransformersEmbedder:
        """The embedder of a model, by its name or its folder, with the dimensions and prompts that the model has.

        Raises ``MissingExtraError`` if the library is not installed, and ``EmbedderRejectedError`` for a model that
        cannot be loaded.
        """
        model = await asyncio.to_thread(_load, name)
        prompts = getattr(model, "prompts", None) or {}
        document, query = prefixes_of(name)
        space = EmbeddingSpace(
            provider=SENTENCE_TRANSFORMERS,
            model=name,
            dimensions=len(model.encode(["retrieval"])[0]),
            document_prefix=_prompt(prompts, _DOCUMENT_PROMPTS) or document,
            query_prefix=_prompt(prompts, _QUERY_PROMPTS) or query,
        )
        return cls(space, model)

    @property
    def max_tokens(self) -> int | None:
        """The most tokens of one text that the model reads; None: it has no such limit."""
        return getattr(self._loaded(), "max_seq_length", None)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, the model's boundary tokens included."""
        tokenizer = self._loaded().tokenizer
        return [len(tokenizer.encode(text)) for text in prepared(texts, TextRole.DOCUMENT, self.space)]

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """One vector a text, in order: shape (len(texts), dimensions), float32, unit length.

        Raises ``EmbedderRejectedError`` for a model that cannot be loaded, or whose vectors are unusable. When
        cancelled, it stops after the batch that is being computed.
        """
        distinct, indexes = without_repeats(prepared(texts, role, self.space))
        if not distinct:
            return np.zeros((0, self.space.dimensions), dtype=np.float32)
        parts = [distinct[start : start + _TEXTS_A_BATCH] for start in range(0, len(distinct), _TEXTS_A_BATCH)]
        vectors = np.concatenate([await self._run(partial(_vectors, texts=part)) for part in parts])
        try:
            checked: Vectors = checked_vectors(vectors, self.space, [f"text {n + 1}" for n in range(len(distinct))])
        except InvalidVectorError as unusable:
            raise EmbedderRejectedError(f"model {self.space.model!r} gave no usable vector: {unusable}") from None
        return checked[indexes]


def _vectors(model: Any, texts: list[str]) -> Any:
    # The texts have their prompt already.
    return model.encode(texts, prompt="", convert_to_numpy=True, show_progress_bar=False)


def _load(name: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise MissingExtraError(
            "the embedder sentence-transformers needs the library of that name; pip install sentence-transformers"
        ) from None
    try:
        return SentenceTransformer(name)
    # The library raises bare Exception, and the classes of the libraries that it loads with.
    except Exception as failure:
        reason = " ".join(str(failure).split())[:200]
        raise EmbedderRejectedError(
            f"sentence-transformers cannot load the model {written(name, 100)} ({type(failure).__name__}: {reason}); "
            "check its name in RETRIEVAL_EMBEDDER"
        ) from failure


def _prompt(prompts: dict[str, str], names: Sequence[str]) -> str:
    return next((prompts[name] for name in names if prompts.get(name)), "")
