"""The local model itself: blocking, and safe to call from several threads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval.adapters.embedders.minilm_files import MiniLMFiles
from retrieval.domain.embedding import Vectors

DIMENSIONS = 384
MAX_TOKENS = 256
"""What the model was trained with, its two boundary tokens included; longer texts are cut."""

# Cutting before splitting into tokens bounds the time a huge text takes. Room for 256 words of 100 letters,
# the longest the tokenizer knows.
_MAX_CHARACTERS = 32_768

_HEAD_CHARACTERS = 2048
"""Most long texts have the tokens that the model reads here. Nothing else of the process runs while text is split."""

_WORD_START = re.compile("[ \\t\\r\\n\u4e00-\u9fff]")
"""Where a word ends or begins for certain: a space, or a Chinese character, which is a word by itself."""

Tokens = NDArray[np.int32]
"""The token numbers of one text, shape (length,), length 2 to 256."""


class MiniLMModel:
    """Tokenizer and network of all-MiniLM-L6-v2."""

    def __init__(self, files: MiniLMFiles) -> None:
        """Reads both files, which takes a fifth of a second and some 200 MB."""
        import onnxruntime
        from tokenizers import Tokenizer

        onnxruntime.disable_telemetry_events()
        self._tokenizer = Tokenizer.from_file(str(files.tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._session: Any = onnxruntime.InferenceSession(
            str(files.model), _session_options(onnxruntime), providers=["CPUExecutionProvider"]
        )

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of each text, in order."""
        # One at a time: a batch would start a thread a core, beside those that the embedder counts.
        return [np.asarray(self._ids(text[:_MAX_CHARACTERS]), dtype=np.int32) for text in texts]

    def _ids(self, text: str) -> list[int]:
        """The numbers of the tokens; of a long text the first words are tried alone, which mostly are enough."""
        if len(text) > _HEAD_CHARACTERS and (end := _last_word_start(text[:_HEAD_CHARACTERS])):
            ids: list[int] = self._tokenizer.encode(text[:end]).ids
            if len(ids) == MAX_TOKENS:
                return ids
        whole: list[int] = self._tokenizer.encode(text).ids
        return whole

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


def _last_word_start(text: str) -> int:
    """The last place where the text can be cut without cutting a word; 0 if there is none."""
    from_behind = _WORD_START.search(text[::-1])
    return 0 if from_behind is None else len(text) - from_behind.end()


def _session_options(onnxruntime: Any) -> Any:
    options = onnxruntime.SessionOptions()
    # Texts side by side, a thread each, beat threads inside one text: no waiting for one another.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Errors only: warnings about graphs and devices are nothing that a caller can act on.
    options.log_severity_level = 3
    # The weights become float32 at loading instead of at each use.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    return options
