"""LangChain's embeddings as an embedder of the platform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings

from retrieval.domain.errors import EmbedderError, EmbedderRejectedError, EmbedderUnavailableError, InvalidRequestError
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole
from retrieval.surfaces.langchain import LangChainEmbedder
from retrieval.testing import check_embedder


class Answers(Embeddings):
    """Embeddings with scripted answers or errors."""

    model = "small-1"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The same for each."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The answer to any text."""
        del text
        if isinstance(self.answer, Exception):
            raise self.answer
        return list(self.answer)


class RefusalError(Exception):
    """An HTTP answer as clients of models raise it."""

    def __init__(self, status_code: int) -> None:
        super().__init__("no\n  thanks")
        self.status_code = status_code


async def test_the_adapter_passes_the_conformance_suite() -> None:
    """The conformance suite."""
    await check_embedder(lambda: LangChainEmbedder(DeterministicFakeEmbedding(size=16), dimensions=16))


async def test_queries_and_documents_are_embedded_by_their_roles() -> None:
    """Some models embed the two differently."""

    class TwoWays(Answers):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[0.0, 2.0] for _ in texts]

    embedder = LangChainEmbedder(TwoWays([3.0, 0.0]), dimensions=2)

    assert (await embedder.embed(["a"], TextRole.QUERY)).tolist() == [[1, 0]]
    assert (await embedder.embed(["a"], TextRole.DOCUMENT)).tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (RefusalError(400), EmbedderRejectedError),
        (RefusalError(401), EmbedderRejectedError),
        (RefusalError(429), EmbedderUnavailableError),
        (RefusalError(503), EmbedderUnavailableError),
        (ValueError("too long"), EmbedderRejectedError),
        (ConnectionError("away"), EmbedderUnavailableError),
        (EmbedderUnavailableError("away"), EmbedderUnavailableError),
        ([1.0], EmbedderRejectedError),
        ([float("nan"), 1.0], EmbedderRejectedError),
        ([0.0, 0.0], EmbedderRejectedError),
    ],
)
@pytest.mark.parametrize("role", list(TextRole))
async def test_failures_are_errors_of_the_platform(answer: Any, kind: type[EmbedderError], role: TextRole) -> None:
    """A refusal differs from a transient failure, in one line."""
    embedder = LangChainEmbedder(Answers(answer), dimensions=2)

    with pytest.raises(kind) as raised:
        await embedder.embed(["text"], role)

    assert type(raised.value) is kind
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda embeddings: LangChainEmbedder(embeddings, dimensions=3),
        LangChainEmbedder.of,
    ],
)
def test_the_space_is_named_after_the_class_and_its_model(make: Callable[[Embeddings], LangChainEmbedder]) -> None:
    """If neither is the same, vectors are never compared."""
    embeddings = Answers([1.0, 2.0, 2.0])

    assert make(embeddings).space == EmbeddingSpace(provider="langchain", model="Answers/small-1", dimensions=3)


async def test_a_space_can_be_named() -> None:
    """The same model's vectors that came by another way are then the same space; its length counts."""
    space = EmbeddingSpace(provider="openai", model="text-embedding-3-small", dimensions=2)

    embedder = LangChainEmbedder(Answers([0.0, 5.0]), space=space)

    assert embedder.space == space
    np.testing.assert_array_equal(await embedder.embed(["a"], TextRole.QUERY), [[0, 1]])


def test_the_length_comes_from_the_model_or_the_caller() -> None:
    """Nothing is guessed."""
    embeddings = Answers([1.0] * 5)

    assert LangChainEmbedder.of(embeddings).space.dimensions == 5
    with pytest.raises(InvalidRequestError, match="dimensions="):
        LangChainEmbedder(embeddings)
    embeddings.dimensions = 7  # type: ignore[attr-defined] # as some classes of embeddings have it
    assert LangChainEmbedder(embeddings).space.dimensions == 7


class Cache(Answers):
    """Embeddings around others, as LangChain's cache."""

    model = ""

    def __init__(self, underlying_embeddings: Embeddings) -> None:
        super().__init__([1.0])
        self.underlying_embeddings = underlying_embeddings


def test_embeddings_around_others_have_their_space() -> None:
    """The name of the cache's class is not used."""
    within = LangChainEmbedder(Cache(Cache(Answers([1.0, 0.0]))), dimensions=2).space

    assert within == LangChainEmbedder(Answers([1.0, 0.0]), dimensions=2).space


@pytest.mark.parametrize("embeddings", [Cache(Cache(None)), Cache(None)])  # type: ignore[arg-type]
def test_an_unknown_model_has_to_be_named(embeddings: Embeddings) -> None:
    """Vectors of two models would be mixed, as they would have one space."""
    with pytest.raises(InvalidRequestError, match=r"Cache does not name its model.*space=EmbeddingSpace"):
        LangChainEmbedder(embeddings, dimensions=2)


async def test_a_service_is_not_sent_the_empty_text() -> None:
    """Most refuse it."""
    texts_sent = list[str]()

    class Picky(Answers):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            texts_sent.extend(texts)
            return super().embed_documents(texts)

    await LangChainEmbedder(Picky([1.0]), dimensions=1).embed(["", "a"], TextRole.DOCUMENT)

    assert texts_sent == [" ", "a"]
