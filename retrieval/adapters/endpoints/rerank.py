"""Rerankers over HTTP: the ``/rerank`` endpoints of Cohere, Jina, Voyage and Text Embeddings Inference (TEI)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Unpack

from retrieval.adapters.embedders.batching import all_of
from retrieval.adapters.endpoints.breaker import RERANKER
from retrieval.adapters.endpoints.client import CallLimits, EndpointClient
from retrieval.adapters.endpoints.endpoint import Endpoint
from retrieval.domain.checks import choices_hint, clean_text, is_number, is_whole, written
from retrieval.domain.errors import ConfigurationError, RerankerRejectedError

_SETTINGS = "RETRIEVAL_RERANKER"

RERANKING = Endpoint(
    role=RERANKER, serves="reranking", operation="rerank", settings=_SETTINGS,
    where=f"{_SETTINGS}_MODEL and {_SETTINGS}_BASE_URL",
    refused_advice="RETRIEVAL_RERANKER_MODEL, and the number and length of the texts", too_long=RerankerRejectedError,
    refused=RerankerRejectedError,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankShape:
    """The shape of one provider's requests."""

    url: str
    """The address of its endpoint, without ``/rerank``; empty: the user runs the server."""
    texts: str = "documents"
    """The member that holds the texts."""
    constants: Mapping[str, Any]
    has_model: bool = True
    """Whether a request names its model; otherwise the server has only one."""
    most_texts: int = 1000


SHAPES: Mapping[str, RerankShape] = MappingProxyType(
    {
        # Without top_n all texts get a score. The service cuts texts that are too long for the model.
        "cohere": RerankShape(url="https://api.cohere.com/v2", constants={}),
        "jina": RerankShape(url="https://api.jina.ai/v1", constants={"return_documents": False}),
        "voyage": RerankShape(
            url="https://api.voyageai.com/v1", constants={"return_documents": False, "truncation": True}
        ),
        # It accepts 32 texts at once, unless its --max-client-batch-size is raised.
        "tei": RerankShape(
            url="", texts="texts", constants={"raw_scores": False, "return_text": False, "truncate": True},
            has_model=False, most_texts=32,
        ),
    }
)  # fmt: skip
"""The request format of each provider. The answers differ only in names, so one function reads them all."""


def read_rerank(answer: Any, texts: int, endpoint: Endpoint) -> list[float]:
    """The scores in an answer, 0 to 1, in the texts' order.

    The answer is a list of indexes with scores, or an object with such a list in ``results`` or ``data``. Some models
    answer with a cosine: a score from -1 to 0 counts as 0. Raises ``RerankerRejectedError`` unless each text has one
    score, up to 1.
    """
    rows = answer if isinstance(answer, list) else answer.get("results", answer.get("data"))
    if not isinstance(rows, list):
        raise RerankerRejectedError(f"{endpoint.host} gave no results; check RETRIEVAL_RERANKER and its BASE_URL")
    scores = dict(_scored(row, texts, endpoint) for row in rows)
    if len(rows) != texts or len(scores) != texts:
        raise _lied(endpoint, f"{len(rows)} scores for {len(scores)} of {texts} texts; it has to give one for each")
    return [scores[index] for index in range(texts)]


def _scored(row: object, texts: int, endpoint: Endpoint) -> tuple[int, float]:
    found = row if isinstance(row, dict) else {}
    index, score = found.get("index"), found.get("relevance_score", found.get("score"))
    if not is_whole(index, 0, texts - 1):
        raise _lied(
            endpoint, f"{endpoint.quoted(repr(row)):.80}; its index has to be a whole number from 0 to {texts - 1}"
        )
    if not is_number(score, -1, 1):
        raise _lied(endpoint, f"{endpoint.quoted(repr(row)):.80}; its score has to be a probability, from 0 to 1")
    return index, max(float(score), 0.0)


def _lied(endpoint: Endpoint, what: str) -> RerankerRejectedError:
    return RerankerRejectedError(f"{endpoint.host} gave {what}")


class EndpointReranker(EndpointClient):
    """Asks over HTTP; calls are repeated as ``EndpointClient`` does, as long as the search waits."""

    def __init__(
        self, provider: str, *, model: str = "", api_key: str = "", base_url: str = "", **limits: Unpack[CallLimits]
    ) -> None:
        """Check the options, without connecting. Raises ``ConfigurationError``, naming the setting.

        - ``provider``: ``cohere``, ``jina``, ``voyage`` or ``tei``.
        - ``model``: required, except for ``tei``, whose server has one model; there it only names the reranker.
        - ``base_url``: without ``/rerank``; empty: the provider's own.
        - ``limits``: at most 2 attempts and 8 requests at once by default.
        """
        if provider not in SHAPES:
            raise ConfigurationError(f"there is no reranker {written(provider, 40)}; {choices_hint(provider, SHAPES)}")
        self._shape = shape = SHAPES[provider]
        if shape.has_model and not model:
            raise ConfigurationError(f"the {provider} reranker needs a model; set {_SETTINGS}_MODEL")
        url = base_url or shape.url
        if shape.url and not api_key and url == shape.url:
            raise ConfigurationError(f"the {provider} reranker needs a key; set {_SETTINGS}_API_KEY")
        endpoint = replace(RERANKING, url=url, api_key=api_key)
        self._model = model or endpoint.host
        self.name = f"{provider}/{self._model}"
        """Provider and model, or the host of a server with one model."""
        super().__init__(replace(endpoint, model=self._model), **CallLimits(max_attempts=2, max_concurrency=8) | limits)

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score a text, in order, 0 to 1; without a text, nothing is sent.

        Raises ``RerankerUnavailableError`` when the attempts are used up; ``RerankerRejectedError`` when the server
        refuses, or its answer is not usable.
        """
        # Half a surrogate pair cannot be sent, and some servers refuse an empty text.
        query, texts = clean_text(query) or " ", [clean_text(text) or " " for text in texts]
        most = self._shape.most_texts
        batches = [texts[start : start + most] for start in range(0, len(texts), most)]
        parts = await all_of(self._call(partial(self._ask, query, batch)) for batch in batches)
        return [score for part in parts for score in part]

    async def _ask(self, query: str, texts: list[str]) -> list[float]:
        body = {"query": query, self._shape.texts: texts, **self._shape.constants}
        if self._shape.has_model:
            body["model"] = self._model
        return read_rerank(await self._post("/rerank", body), len(texts), self._endpoint)
