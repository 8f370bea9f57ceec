"""Embeddings from OpenAI or any endpoint that speaks its API."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np
from openai import AsyncOpenAI, omit

from retrieval.adapters.embedders.batching import batches, estimated_tokens
from retrieval.adapters.embedders.concurrency import all_of
from retrieval.adapters.embedders.openai_answers import parse_answer
from retrieval.adapters.embedders.openai_options import OpenAIOptions
from retrieval.adapters.embedders.texts import cut, prepared, without_repeats
from retrieval.adapters.endpoints.address import OPENAI_URL
from retrieval.adapters.endpoints.caller import Caller
from retrieval.adapters.endpoints.refusals import Endpoint, Service
from retrieval.adapters.endpoints.retries import Sleep
from retrieval.adapters.endpoints.usage import Usage
from retrieval.domain.embedding import EmbeddingSpace, TextRole, Vectors
from retrieval.domain.errors import EmbedderRejectedError, EmbedderUnavailableError


class TooLongError(EmbedderRejectedError):
    """The texts of one request, together or one of them, have too many tokens."""


EMBEDDINGS = Service(
    serves="embeddings",
    operation="embeddings",
    settings="RETRIEVAL_EMBEDDING",
    refused_advice="RETRIEVAL_EMBEDDING_MODEL and RETRIEVAL_EMBEDDING_DIMENSIONS",
    unavailable=EmbedderUnavailableError,
    rejected=EmbedderRejectedError,
    too_long=TooLongError,
    refused=EmbedderRejectedError,
)
"""What an embedder asks for."""


# The API takes 300,000 tokens a request; ours are estimates.
_TOKENS_A_REQUEST = 250_000
# Decoding an answer holds up the event loop: a million numbers take some 20 ms as base64, 150 ms as decimals.
_NUMBERS_A_REQUEST = 2**20
_BYTES_A_TOKEN = 3
# The client refuses an empty key; servers without keys ignore what they get.
_NO_KEY = "none"


class OpenAIEmbedder:
    """Embeds over HTTP, in batches and in parallel; belongs to the event loop that it is first used in.

    - A text that occurs several times in a call is sent once. An empty text, which the API refuses, is sent
      as one space.
    - A text is cut at three bytes for each token the model takes; if the server still finds it too long, at
      one byte a token, which no byte-pair tokenizer can exceed. Which other texts are in the call makes no
      difference.
    - Overload (408, 409, 425, 429, 5xx), broken connections, answers cut short and timeouts are tried again
      with exponential backoff and jitter, not sooner than ``Retry-After`` says; one of more than 60 seconds
      is given up.
    """

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str = OPENAI_URL,
        model: str = "text-embedding-3-small",
        dimensions: int | None = None,
        document_prefix: str = "",
        query_prefix: str = "",
        send_dimensions: bool | None = None,
        max_concurrency: int = 4,
        max_texts: int = 2048,
        max_input_tokens: int = 8191,
        timeout_seconds: float = 30.0,
        max_attempts: int = 6,
        sleep: Sleep = asyncio.sleep,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Connects to nothing yet. Raises ``ConfigurationError``, naming the setting.

        - ``api_key``: may be empty for an endpoint other than OpenAI's own.
        - ``dimensions``: None for the model's own, where it is a known one.
        - ``send_dimensions``: whether requests name the dimensions; None for when they were set, and for
          models that can shorten vectors. Some servers refuse to be told those of a model of fixed size:
          False is for them.
        - ``max_concurrency``: requests under way at once, over all calls: of documents, and as many of queries, which
          do not wait behind documents.
        - ``max_texts``: texts a request; some servers take no more than 32.
        - ``max_input_tokens``: tokens that the model takes of one text.
        - ``timeout_seconds``: for one attempt, from connecting to the last byte of the answer.
        - ``max_attempts``: for one request, the first one included.
        - ``sleep``, ``rng``, ``now``: for waiting, for jitter, and (time zone aware) for a ``Retry-After``
          date.
        """
        self._options = options = OpenAIOptions(
            api_key=api_key,
            base_url=base_url,
            model=model,
            dimensions=dimensions,
            document_prefix=document_prefix,
            query_prefix=query_prefix,
            send_dimensions=send_dimensions,
            max_concurrency=max_concurrency,
            max_texts=max_texts,
            max_input_tokens=max_input_tokens,
            timeout_seconds=timeout_seconds,
            max_attempts=max_attempts,
        )
        self._space = options.space
        self._client = AsyncOpenAI(
            api_key=options.api_key or _NO_KEY,
            base_url=options.base_url,
            max_retries=0,
        )
        self._caller = Caller(
            Endpoint(EMBEDDINGS, options.host, options.model, options.api_key),
            timeout_seconds=options.timeout_seconds,
            max_concurrency=options.max_concurrency,
            max_attempts=options.max_attempts,
            sleep=sleep,
            rng=rng,
            now=now,
        )
        self._closed = False

    @property
    def space(self) -> EmbeddingSpace:
        """The space that the vectors belong to; its provider is ``openai`` whatever the endpoint."""
        return self._space

    @property
    def usage(self) -> Usage:
        """What has been asked so far."""
        return self._caller.usage

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """One vector a text, in order: shape (len(texts), dimensions), float32, unit length.

        Raises ``EmbedderUnavailableError`` when the attempts are used up, ``EmbedderRejectedError`` when
        the server refuses or its answer is not usable. When it raises or is cancelled, its outstanding
        requests are cancelled.
        """
        if self._closed:
            raise EmbedderRejectedError("the embedder is closed; make a new one")
        longest = self._options.max_input_tokens * _BYTES_A_TOKEN
        ready = [cut(text, longest) or " " for text in prepared(texts, role, self._space)]
        distinct, places = without_repeats(ready)
        if not distinct:
            return np.zeros((0, self._space.dimensions), dtype=np.float32)
        split = batches(
            [estimated_tokens(text) for text in distinct],
            max_items=max(1, min(self._options.max_texts, _NUMBERS_A_REQUEST // self._space.dimensions)),
            max_size=_TOKENS_A_REQUEST,
        )
        parts = await all_of(self._embed_batch(distinct[batch.start : batch.stop], role) for batch in split)
        rows: Vectors = np.concatenate(parts)[places]
        return rows

    async def _embed_batch(self, texts: list[str], role: TextRole) -> Vectors:
        """The vectors of a batch; one that is too long is halved, so that only the long text is cut."""
        try:
            return await self._caller.call(lambda: self._ask(texts), role)
        except TooLongError as refusal:
            if len(texts) > 1:
                middle = len(texts) // 2
                halves = texts[:middle], texts[middle:]
                return np.concatenate(await all_of(self._embed_batch(half, role) for half in halves))
            shortest = cut(texts[0], self._options.max_input_tokens)
            if shortest != texts[0]:
                return await self._embed_batch([shortest], role)
            raise EmbedderRejectedError(
                f"{refusal}; set max_input_tokens (now {self._options.max_input_tokens}) to what it takes"
            ) from None

    async def _ask(self, texts: list[str]) -> Vectors:
        """One request. Raises the client's errors, ``TryAgainError`` or ``EmbedderRejectedError``."""
        body = await self._post(texts)
        answer = parse_answer(body, self._space, [f"text {number}" for number in range(1, len(texts) + 1)])
        self._caller.count_tokens(answer.tokens)
        return answer.vectors

    async def _post(self, texts: list[str]) -> bytes:
        """The body of the answer, as it came: the client's own models take a second for a million numbers."""
        answer = await self._client.embeddings.with_raw_response.create(
            model=self._options.model,
            input=texts,
            dimensions=self._space.dimensions if self._options.names_dimensions else omit,
            timeout=self._caller.timeout,
        )
        return answer.content

    async def aclose(self) -> None:
        """Close the connections."""
        self._closed = True
        await self._client.close()
