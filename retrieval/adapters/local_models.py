"""Models that compute on this machine: loaded at their first use, in threads of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, TypeVar

from retrieval.adapters.endpoints.breaker import Role

M = TypeVar("M")
T = TypeVar("T")


class LocalModel(Generic[M]):
    """The base of embedders and rerankers that load a model, and compute with it, beside the event loop.

    Calls share the threads: each waits for the work that was handed in before it. A process forked after the loading
    must not use the model, because threads do not survive a fork.
    """

    def __init__(self, role: Role, load: Callable[[], M], *, threads: int = 1, loaded: M | None = None) -> None:
        """``loaded``: the model, if it is loaded already."""
        self._role = role
        self._load = load
        self._model = loaded
        self._loading = threading.Lock()
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=role.name)
        self._closed = False

    @property
    def needs_loading(self) -> bool:
        """Whether the next use loads the model first, which takes longer than any text."""
        return self._model is None

    def _loaded(self) -> M:
        """The model, loaded in the caller's thread if it must be. Raises the errors of ``load``."""
        with self._loading:
            if self._model is None:
                self._model = self._load()
            return self._model

    async def _run(self, work: Callable[[M], T]) -> T:
        """The result of the work with the model, in one of the threads.

        Raises the role's error of a rejected request after ``aclose``, and the errors of ``load`` and ``work``.
        """
        if self._closed:
            raise self._role.closed()
        return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: work(self._loaded()))

    async def aclose(self) -> None:
        """Release the threads and the model after the work that was handed in."""
        self._closed = True
        await asyncio.to_thread(self._executor.shutdown)
        self._model = None


def onnx_session(file: Path, *, threads: int = 1, **config: str) -> Any:
    """The network of an ONNX file, which computes in that number of threads; ``config``: entries of its session."""
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # Errors only: a caller cannot act on warnings about graphs and devices.
    options.log_severity_level = 3
    for name, value in config.items():
        options.add_session_config_entry(name, value)
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def tokenizer_of(file: Path) -> Any:
    """The tokenizer of a ``tokenizer.json``, which neither pads nor cuts."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
