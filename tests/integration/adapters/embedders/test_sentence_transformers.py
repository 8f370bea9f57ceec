"""Models of sentence-transformers: the adapter, with a small library of that name in place of the real one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from retrieval import Settings
from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.embedders.chosen import configured_embedder, embedder_for, load_embedder
from retrieval.adapters.embedders.hashing import hashed_vector
from retrieval.domain.errors import ConfigurationError, EmbedderRejectedError, MissingExtraError
from retrieval.domain.items.embedding import Embedder, TextRole
from retrieval.testing import check_embedder

SETTINGS = Settings().changed(embedder="sentence-transformers:intfloat/multilingual-e5-small")

LIBRARY = """
import numpy as np
from retrieval.adapters.embedders.hashing import hashed_vector

class SentenceTransformer:
    max_seq_length = 8

    def __init__(self, name):
        if name == "no/such":
            raise OSError(f"{name} is not a local folder\\nand not on the hub")
        self.prompts = {"query": "Q: ", "document": "D: "} if name == "with/prompts" else {}
        self.tokenizer = self

    def encode(self, texts, prompt=None, **_):
        if isinstance(texts, str):
            return texts.split()
        return np.stack([hashed_vector((prompt or "") + text, 48) for text in texts])
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The library is installed: as much of it as the adapter calls."""
    (tmp_path / "sentence_transformers.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sentence_transformers", raising=False)
    yield
    sys.modules.pop("sentence_transformers", None)


async def new_embedder(settings: Settings = SETTINGS) -> Embedder:
    """The embedder of a new collection."""
    embedder = await load_embedder(settings)
    assert embedder is not None
    return embedder


@pytest.mark.usefixtures("library")
async def test_keeps_the_contract_of_embedders() -> None:
    """It passes the conformance suite."""
    await check_embedder(new_embedder)


@pytest.mark.usefixtures("library")
async def test_the_space_has_the_models_prompts_or_the_known_prefixes() -> None:
    """They are put before the texts once."""
    prefixed = await new_embedder()
    assert (prefixed.space.document_prefix, prefixed.space.query_prefix) == ("passage: ", "query: ")
    vectors = await prefixed.embed(["apples"], TextRole.QUERY)
    np.testing.assert_allclose(vectors[0], hashed_vector("query: apples", 48), atol=1e-6)
    own = await new_embedder(SETTINGS.changed(embedder="sentence-transformers:with/prompts"))
    assert (own.space.document_prefix, own.space.query_prefix) == ("D: ", "Q: ")
    for embedder in (prefixed, own):
        await embedder.aclose()


@pytest.mark.usefixtures("library")
async def test_a_stored_space_finds_its_model_again() -> None:
    """It is loaded by the first text."""
    first = await new_embedder()
    await first.aclose()
    again = embedder_for(first.space, Settings())
    assert again is not None
    assert getattr(again, "needs_loading", False)
    assert (await again.embed(["apples"], TextRole.DOCUMENT)).shape == (1, 48)
    assert not getattr(again, "needs_loading", True)
    await again.aclose()


@pytest.mark.usefixtures("library")
async def test_its_measure_loads_the_model_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading takes seconds, in which the event loop serves others."""
    first = await new_embedder()
    again = embedder_for(first.space, Settings())
    assert again is not None
    threads: list[int] = []

    def load(*_: object) -> None:
        threads.append(threading.get_ident())

    monkeypatch.setattr(sys.modules["sentence_transformers"].SentenceTransformer, "__init__", load)
    cached = CachedEmbedder(again, cast("Any", None), 1, cast("Any", None), guard=cast("Any", None), budget_seconds=1)
    assert (await cached.measure()).max_tokens == 8
    assert threads
    assert threading.get_ident() not in threads
    for embedder in (first, again):
        await embedder.aclose()


@pytest.mark.usefixtures("library")
async def test_a_model_that_cannot_be_loaded_is_reported() -> None:
    """On one line, with its name."""
    with pytest.raises(EmbedderRejectedError) as caught:
        await new_embedder(SETTINGS.changed(embedder="sentence-transformers:no/such"))
    assert "cannot load the model 'no/such' (OSError: no/such is not a local folder and not on the hub)" in str(
        caught.value
    )


async def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored space then has no embedder."""
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match="pip install sentence-transformers"):
        await new_embedder()


def test_its_dimensions_are_known_once_it_is_loaded() -> None:
    """Asking before that is an error that says so."""
    with pytest.raises(ConfigurationError, match="are known once it is loaded"):
        configured_embedder(SETTINGS)
