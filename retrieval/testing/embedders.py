"""The conformance checks of embedders."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np

from retrieval.domain.items.embedding import Embedder, TextRole, Vectors
from retrieval.testing.suite import BrokenError, Suite, require_free_loop, run_closing

_EMBEDDER: Suite[Embedder] = Suite("embedder")

_TEXTS = (
    "The invoice was paid twice and the customer asks for a refund.",
    "Install the driver, then restart the machine.",
    "coffee",
    "A backup that was never restored is a hope, not a backup. " * 8,
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
)
_ODD_TEXTS = ("", " ", "\n\t", "!?", "\u200d", "naïve café", "数据库检索", "بحث", "👩🏽‍🚀 🚀", "e\u0301", "a\x00b")
_TOLERANCE = 1e-4
"""The greatest difference in one number between two vectors of the same text: a batch adds in another order."""


async def check_embedder(make: Callable[[], Embedder | Awaitable[Embedder]]) -> None:
    """Check everything that ``retrieval.domain.items.embedding.Embedder`` promises.

    ``make`` returns a new embedder, or an awaitable of one; it is called once, and the embedder is closed.
    Some 200 texts are embedded. Raises ``ConformanceError``.
    """
    await run_closing(make, [_EMBEDDER])


@_EMBEDDER.add
async def _space_is_stable(embedder: Embedder) -> None:
    first, second = embedder.space, embedder.space
    if first != second:
        raise BrokenError("two readings of its space differ; return the same value")
    if not embedder.space.provider or not embedder.space.model:
        raise BrokenError("its space lacks a provider or a model; vectors of different models would be compared")


@_EMBEDDER.add
async def _shape_type_and_length(embedder: Embedder) -> None:
    vectors = await _documents(embedder, *_TEXTS)
    expected = (len(_TEXTS), embedder.space.dimensions)
    if vectors.shape != expected or vectors.dtype != np.float32:
        raise BrokenError(f"expected float32 of shape {expected}, got {vectors.dtype} of {vectors.shape}")
    if not _usable(vectors):
        raise BrokenError(f"vectors have the lengths {np.linalg.norm(vectors, axis=1).tolist()}")


@_EMBEDDER.add
async def _deterministic(embedder: Embedder) -> None:
    first = await _documents(embedder, *_TEXTS)
    second = await _documents(embedder, *_TEXTS)
    if not _close(first, second):
        raise BrokenError("the same texts have other vectors the second time")


@_EMBEDDER.add
async def _empty_input(embedder: Embedder) -> None:
    for role in TextRole:
        vectors = await embedder.embed([], role)
        expected = (0, embedder.space.dimensions)
        if vectors.shape != expected or vectors.dtype != np.float32:
            raise BrokenError(f"no texts gave {vectors.dtype} of shape {vectors.shape}, not float32 of {expected}")


@_EMBEDDER.add
async def _different_texts_differ(embedder: Embedder) -> None:
    vectors = await _documents(embedder, *_TEXTS)
    similar = vectors @ vectors.T - np.eye(len(_TEXTS), dtype=np.float32)
    if similar.max() >= 1 - _TOLERANCE:
        raise BrokenError("two different texts have the same vector")


@_EMBEDDER.add
async def _order_kept(embedder: Embedder) -> None:
    forward = await _documents(embedder, *_TEXTS)
    backward = await _documents(embedder, *reversed(_TEXTS))
    if not _close(forward, backward[::-1]):
        raise BrokenError("vectors are not in the order of the texts")


@_EMBEDDER.add
async def _batch_independent(embedder: Embedder) -> None:
    together = await _documents(embedder, *_TEXTS)
    for index, text in enumerate(_TEXTS):
        alone = await _documents(embedder, text)
        if not _close(alone[0], together[index]):
            raise BrokenError(f"{text[:30]!r} has another vector alone than beside other texts")


@_EMBEDDER.add
async def _duplicates_are_equal(embedder: Embedder) -> None:
    vectors = await _documents(embedder, _TEXTS[0], _TEXTS[1], _TEXTS[0])
    if len(vectors) != 3:
        raise BrokenError(f"three texts, two of them equal, gave {len(vectors)} vectors")
    if not _close(vectors[0], vectors[2]):
        raise BrokenError("the same text twice in a call has two vectors")


@_EMBEDDER.add
async def _prefixes_applied(embedder: Embedder) -> None:
    document, query = embedder.space.document_prefix, embedder.space.query_prefix
    if document == query:
        return
    text = _TEXTS[0]
    as_document = await _documents(embedder, text)
    as_query = await embedder.embed([text], TextRole.QUERY)
    if _close(as_document, as_query):
        raise BrokenError("a query has the vector of a document despite prefixes")
    # Where one prefix begins with the other, the longer one can be written out in the text itself.
    if query.startswith(document):
        written = await _documents(embedder, query.removeprefix(document) + text)
        if not _close(written, as_query):
            raise BrokenError("the query prefix is not what is put before a query")
    if document.startswith(query):
        written = await embedder.embed([document.removeprefix(query) + text], TextRole.QUERY)
        if not _close(written, as_document):
            raise BrokenError("the document prefix is not put before a document")


@_EMBEDDER.add
async def _long_text(embedder: Embedder) -> None:
    vectors = await _documents(embedder, "a long text about databases and indexes " * 2000)
    if not _usable(vectors):
        raise BrokenError("a text of 80,000 characters has no usable vector")


@_EMBEDDER.add
async def _odd_texts(embedder: Embedder) -> None:
    for text, vector in zip(_ODD_TEXTS, await _documents(embedder, *_ODD_TEXTS), strict=True):
        if not _usable(vector[None, :]):
            raise BrokenError(f"the text {text!r} has no usable vector")


@_EMBEDDER.add
async def _concurrent_calls(embedder: Embedder) -> None:
    expected = await _documents(embedder, *_TEXTS)
    calls = [_documents(embedder, *_TEXTS[index % len(_TEXTS) :]) for index in range(10)]
    for index, vectors in enumerate(await asyncio.gather(*calls)):
        if not _close(vectors, expected[index % len(_TEXTS) :]):
            raise BrokenError("calls at the same time mix up vectors")


@_EMBEDDER.add
async def _event_loop_stays_free(embedder: Embedder) -> None:
    await require_free_loop(_documents(embedder, *(f"{number} {_TEXTS[3]}" for number in range(48))))


@_EMBEDDER.add
async def _closes_twice(embedder: Embedder) -> None:
    await embedder.aclose()
    await embedder.aclose()


async def _documents(embedder: Embedder, *texts: str) -> Vectors:
    return await embedder.embed(texts, TextRole.DOCUMENT)


def _close(some: Vectors, others: Vectors) -> bool:
    return some.shape == others.shape and bool(np.allclose(some, others, rtol=0, atol=_TOLERANCE))


def _usable(vectors: Vectors) -> bool:
    return bool(np.isfinite(vectors).all()) and _close(
        np.linalg.norm(vectors, axis=1), np.ones(len(vectors), np.float32)
    )
