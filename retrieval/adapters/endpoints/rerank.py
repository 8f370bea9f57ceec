"""Rerankers over HTTP: the ``/rerank`` endpoints of Cohere, Jina, Voyage and Text Embeddings Inference (TEI)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from retrieval.adapters.embedders.batching import all_of
from retrieval.adapters.endpoints.breaker import RERANKER
from retrieval.adapters.endpoints.caller import (
    EndpointCaller,
    EndpointUsage,
    check_address,
    check_key,
    host_of,
)
from retrieval.adapters.endpoints.retries import Endpoint, EndpointService, Sleep, parsed_answer, total_tokens
from retrieval.domain.checks import choices_hint, clean_text, is_number, is_whole
from retrieval.domain.errors import ConfigurationError, RerankerRejectedError

_SETTINGS = "RETRIEVAL_RERANKER"
_WHAT = "reranker's"

RERANKING = EndpointService(
    serves="reranking",
    operation="rerank",
    key=f"{_SETTINGS}_API_KEY",
    where=f"{_SETTINGS}_MODEL and {_SETTINGS}_BASE_URL",
    refused_advice="RETRIEVAL_RERANKER_MODEL, and the number and length of the texts",
    role=RERANKER,
    too_long=RerankerRejectedError,
    refused=RerankerRejectedError,
)
"""The service that a reranker asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankShape:
    """The shape of one provider's requests."""

    url: str
    """The address of its endpoint, without ``/rerank``; empty: the user runs the server."""
    texts: str = "documents"
    """The member that holds the texts."""
    constants: Mapping[str, Any]
    """Members that are always the same."""
    has_model: bool = True
    """Whether a request names its model; otherwise the server has only one."""
    most_texts: int = 1000
    """The texts of one request."""


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
            url="",
            texts="texts",
            constants={"raw_scores": False, "return_text": False, "truncate": True},
            has_model=False,
            most_texts=32,
        ),
    }
)
"""The request format of each provider. The answers differ only in names, so one function reads them all."""


@dataclass(frozen=True, slots=True)
class RerankAnswer:
    """One answered request."""

    scores: list[float]
    """A score for each text, in the texts' order, 0 to 1."""
    tokens: int
    """The server's count; 0 where it gives none."""


def read_rerank(body: bytes, texts: int, endpoint: Endpoint) -> RerankAnswer:
    """The scores of an answer: a list of indexes with scores, or an object with such a list in ``results`` or ``data``.

    Some models answer with a cosine: a score from -1 to 0 counts as 0. Raises ``TryAgainError`` for a body that ends
    early, and ``RerankerRejectedError`` unless each text has one score, up to 1.
    """
    answer = parsed_answer(body, whose=f"the answer of {endpoint.host}", rejected=RerankerRejectedError)
    if answer is None:
        raise RerankerRejectedError(
            f"the answer of {endpoint.host} is not a JSON object; check RETRIEVAL_RERANKER_BASE_URL"
        )
    rows = answer if isinstance(answer, list) else answer.get("results", answer.get("data"))
    if not isinstance(rows, list):
        raise RerankerRejectedError(f"{endpoint.host} gave no results; check RETRIEVAL_RERANKER and its BASE_URL")
    scores: dict[int, float] = {}
    for row in rows:
        place, score = _scored(row, endpoint)
        if not 0 <= place < texts:
            raise _lied(endpoint, f"a score for the index {place}; {texts} texts have 0 to {texts - 1}")
        if place in scores:
            raise _lied(endpoint, f"two scores for the index {place}; it has to give one")
        scores[place] = max(score, 0.0)
    if len(scores) < texts:
        raise _lied(endpoint, f"{len(scores)} scores for {texts} texts; it has to give one for each")
    return RerankAnswer([scores[place] for place in range(texts)], total_tokens(answer))


def _scored(row: object, endpoint: Endpoint) -> tuple[int, float]:
    found = row if isinstance(row, dict) else {}
    place, score = found.get("index"), found.get("relevance_score", found.get("score"))
    if not is_whole(place):
        raise _lied(endpoint, f"{row!r:.80}; its index has to be a whole number")
    if not is_number(score):
        raise _lied(endpoint, f"{row!r:.80}; its score has to be a number")
    if not -1 <= score <= 1:
        raise _lied(endpoint, f"the score {score:g}; scores are probabilities, from 0 to 1")
    return place, float(score)


def _lied(endpoint: Endpoint, what: str) -> RerankerRejectedError:
    return RerankerRejectedError(f"{endpoint.host} gave {what}")


class EndpointReranker:
    """Asks over HTTP; belongs to the event loop that it is first used in.

    Overload (408, 409, 425, 429, 5xx), broken connections, truncated answers and timeouts are retried, as long as the
    search waits.
    """

    def __init__(
        self,
        provider: str,
        *,
        model: str = "",
        api_key: str = "",
        base_url: str = "",
        timeout_seconds: float = 30.0,
        max_attempts: int = 2,
        max_concurrency: int = 8,
        sleep: Sleep = asyncio.sleep,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Check the options, without connecting. Raises ``ConfigurationError``, naming the setting.

        - ``provider``: ``cohere``, ``jina``, ``voyage`` or ``tei``.
        - ``model``: required, except for ``tei``, whose server has one model; there it only names the reranker.
        - ``base_url``: without ``/rerank``; empty: the provider's own.
        - ``timeout_seconds``, ``max_attempts``: for one attempt, and for one request, the first one included.
        - ``max_concurrency``: requests under way at once.
        """
        if provider not in SHAPES:
            raise ConfigurationError(f"there is no reranker {provider!r:.40}; {choices_hint(provider, SHAPES)}")
        self._shape = shape = SHAPES[provider]
        if shape.has_model and not model:
            raise ConfigurationError(f"the {provider} reranker needs a model; set {_SETTINGS}_MODEL")
        url = base_url or shape.url
        check_address(url, what=_WHAT, settings=_SETTINGS)
        check_key(api_key, url, what=_WHAT, settings=_SETTINGS)
        if not api_key and url == shape.url:
            raise ConfigurationError(f"the {provider} reranker needs a key; set {_SETTINGS}_API_KEY")
        self._model = model or host_of(url)
        self._name = f"{provider}/{self._model}"
        self._endpoint = Endpoint(RERANKING, host_of(url), self._model, api_key)
        self._caller = EndpointCaller(
            self._endpoint,
            url,
            timeout_seconds=timeout_seconds,
            max_concurrency=max_concurrency,
            max_attempts=max_attempts,
            sleep=sleep,
            rng=rng,
            now=now,
        )

    @property
    def name(self) -> str:
        """Provider and model, or the host of a server with one model."""
        return self._name

    @property
    def usage(self) -> EndpointUsage:
        """The requests and tokens so far."""
        return self._caller.usage

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score a text, in order, 0 to 1; without a text, nothing is sent.

        Raises ``RerankerUnavailableError`` when the attempts are used up; ``RerankerRejectedError`` when the server
        refuses, or its answer is not usable.
        """
        # Half a surrogate pair cannot be sent, and some servers refuse an empty text.
        query, texts = clean_text(query) or " ", [clean_text(text) or " " for text in texts]
        most = self._shape.most_texts
        batches = [texts[start : start + most] for start in range(0, len(texts), most)]
        parts = await all_of(self._rerank(query, batch) for batch in batches)
        return [score for part in parts for score in part]

    async def _rerank(self, query: str, texts: list[str]) -> list[float]:
        return await self._caller.call(lambda: self._ask(query, texts))

    async def _ask(self, query: str, texts: list[str]) -> list[float]:
        """One request. Raises the client's errors, ``TryAgainError`` or ``RerankerRejectedError``."""
        body = {"query": query, self._shape.texts: texts, **self._shape.constants}
        if self._shape.has_model:
            body["model"] = self._model
        answer = read_rerank(await self._caller.post("/rerank", body), len(texts), self._endpoint)
        self._caller.count_tokens(answer.tokens)
        return answer.scores

    async def aclose(self) -> None:
        """Close the connections."""
        await self._caller.aclose()
