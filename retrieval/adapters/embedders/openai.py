"""Embed over HTTP, with OpenAI or another service: options, requests, answers."""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from math import inf
from operator import itemgetter
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from retrieval.adapters.embedders.batching import all_of, batches, cut, estimated_tokens, prepared, without_repeats
from retrieval.adapters.embedders.services import DESTINATIONS, SERVICES, EmbeddingService, known_model
from retrieval.adapters.endpoints import OPENAI_URL
from retrieval.adapters.endpoints.breaker import EMBEDDER
from retrieval.adapters.endpoints.client import CallLimits, EndpointClient
from retrieval.adapters.endpoints.endpoint import Endpoint, shown_address
from retrieval.domain.checks import checked_positive
from retrieval.domain.errors import ConfigurationError, EmbedderRejectedError, InvalidVectorError
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole, Vectors, checked_vectors
from retrieval.domain.items.item import text_hash
from retrieval.domain.wording import several

_SETTINGS = "RETRIEVAL_EMBEDDING"
_OPENAI = SERVICES["openai"]
_SHORTENING = "text-embedding-3-"
_UNKNOWN_MAX_TOKENS = 8191


def vectors_in(answer: Any, space: EmbeddingSpace, labels: Sequence[str]) -> Vectors:
    """The vectors of an answer, shape (len(labels), dimensions); the labels name the texts in messages.

    The vectors are rows of ``data``, sorted by ``index`` (OpenAI), a list ``embeddings`` (Ollama) or the list ``float``
    in ``embeddings`` (Cohere), each a list of numbers or base64 of little-endian float32. Raises
    ``EmbedderRejectedError`` unless there is one usable vector for each text.
    """
    rows = _rows(answer, len(labels), space.model)
    vectors = [_numbers(row.get("embedding"), label) for row, label in zip(rows, labels, strict=True)]
    for vector in vectors:
        if len(vector) != space.dimensions:
            raise EmbedderRejectedError(
                f"model {space.model!r} answered with {len(vector)} dimensions, not {space.dimensions}: the endpoint "
                "serves another model; serve the former one again, or set "
                f"RETRIEVAL_EMBEDDING_DIMENSIONS={len(vector)} and re-embed the collection"
            )
    try:
        return checked_vectors(vectors, space, labels)
    except InvalidVectorError as unusable:
        why = f"model {space.model!r} gave no usable vector: {unusable}; use another endpoint"
        raise EmbedderRejectedError(why) from None


def _rows(answer: Any, count: int, model: str) -> list[dict[str, Any]]:
    fields = answer if isinstance(answer, dict) else {}
    bare = fields.get("embeddings")
    if isinstance(bare, dict):
        bare = bare.get("float")
    rows = [{"embedding": vector} for vector in bare] if isinstance(bare, list) else fields.get("data")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise EmbedderRejectedError(
            "the endpoint's answer holds no 'data' list; check that the model is one for embeddings"
        )
    if len(rows) != count:
        advice = "set RETRIEVAL_EMBEDDING_MAX_TEXTS=1 if it embeds one text a request, or " if count > 1 else ""
        raise EmbedderRejectedError(
            f"model {model!r} answered with {several(len(rows), 'vector')} for {several(count, 'text')}; "
            f"{advice}use another endpoint"
        )
    indexes = [row.get("index", position) for position, row in enumerate(rows)]
    if any(type(index) is not int for index in indexes) or sorted(indexes) != list(range(count)):
        raise EmbedderRejectedError(
            f"model {model!r} numbered its vectors so that they match no texts; use another endpoint"
        )
    return [row for _, row in sorted(zip(indexes, rows, strict=True), key=itemgetter(0))]


def _numbers(embedding: object, label: str) -> NDArray[np.float64]:
    try:
        if isinstance(embedding, str):
            return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float64)
        numbers = np.asarray(embedding)
        if numbers.dtype.kind == "O":  # null, which becomes NaN, or a whole number beyond 64 bits
            numbers = numbers.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.empty((0, 0))
    # NumPy would take texts and booleans for numbers too.
    if numbers.ndim != 1 or numbers.dtype.kind not in "fiu":
        raise EmbedderRejectedError(f"the endpoint's vector for {label} is not a list of numbers; use another endpoint")
    return numbers.astype(np.float64)


def model_of(answer: Any, endpoint: Endpoint, service: str) -> str:
    """The model that a server says it serves. Raises ``EmbedderRejectedError`` where it names none, or several."""
    fields = answer if isinstance(answer, dict) else {}
    served = fields.get("data") if isinstance(fields.get("data"), list) else [{"id": fields.get("model_id")}]
    names = [model.get("id") for model in served or () if isinstance(model, dict)]
    known = [name for name in names if isinstance(name, str) and name]
    if len(known) == 1:
        return known[0]
    told = f"serves {endpoint.quoted(', '.join(known[:10]))}" if known else "does not say which model it serves"
    raise EmbedderRejectedError(
        f"{endpoint.title} {told}; name one: RETRIEVAL_EMBEDDER={service}:MODEL@{shown_address(endpoint.url)}"
    )


class TooLongError(EmbedderRejectedError):
    """The texts of one request, together or one of them, have too many tokens."""


# Decoding an answer holds up the event loop: a million numbers take some 20 ms as base64, 150 ms as decimals.
_NUMBERS_A_REQUEST = 2**20
_BYTES_A_TOKEN = 3
# A text with no more bytes is not halved further when the server refuses it as too long.
_LEAST_BYTES = 256
_ANY_MODEL = "the model that it serves"


_destinations: set[str] = set()
"""The hosts that this process has named in its log."""


def _tell_destination(endpoint: Endpoint, service: EmbeddingService) -> None:
    if endpoint.host not in _destinations:
        _destinations.add(endpoint.host)
        logging.getLogger(DESTINATIONS).warning(
            "texts are sent to %s at %s, to be embedded by %s, because %s is set and RETRIEVAL_EMBEDDER is not; "
            "RETRIEVAL_EMBEDDER=minilm keeps them on this machine, RETRIEVAL_EMBEDDER=%s stops this warning",
            *(endpoint.title, endpoint.host, endpoint.model, service.key_variable, service.name),
        )


class OpenAIEmbedder(EndpointClient):
    """Embeds over HTTP, in batches and in parallel; calls are repeated as ``EndpointClient`` does.

    - A text that occurs several times in a call is sent once. An empty text, which the API refuses, is sent
      as one space.
    - A text is cut at three bytes for each token that the model accepts; if the server still refuses it as too long,
      at one byte a token, which no byte-pair tokenizer can exceed.
    """

    def __init__(
        self,
        *,
        api_key: str,
        service: EmbeddingService = _OPENAI,
        base_url: str = OPENAI_URL,
        model: str = "text-embedding-3-small",
        dimensions: int | None = None,
        document_prefix: str = "",
        query_prefix: str = "",
        send_dimensions: bool | None = None,
        max_texts: int | None = None,
        max_input_tokens: int | None = None,
        is_implicit: bool = False,
        **limits: Unpack[CallLimits],
    ) -> None:
        """Check the options, without connecting. Raises ``ConfigurationError``, naming the setting.

        - ``api_key``: may be empty for an endpoint other than a service's own.
        - ``dimensions``: None: the model's own, if the model is known.
        - ``send_dimensions``: whether requests name the dimensions; None: if they are set, or the model can shorten
          vectors.
        - ``max_texts``: texts a request; None: the service's limit.
        - ``max_input_tokens``: tokens of one text that the model accepts; None: as known for the model, else 8191.
        - ``is_implicit``: whether only a key in the environment selects the service: the first call of the process
          logs where texts go.
        - ``limits``: at most 6 attempts and 4 requests at once by default.
        """
        if not model:
            raise ConfigurationError("no embedding model is named; set RETRIEVAL_EMBEDDING_MODEL")
        if service.key_variable and not api_key and base_url == service.url:
            variables = f"{service.key_variable} or {_SETTINGS}_API_KEY"
            raise ConfigurationError(f"{service.title} needs a key; set {variables}")
        self._service = service
        self._max_texts = service.max_texts if max_texts is None else max_texts
        endpoint = Endpoint(
            role=EMBEDDER, serves="embeddings", operation="embeddings", settings=_SETTINGS,
            where=f"RETRIEVAL_EMBEDDER={service.name}:MODEL@ADDRESS (an address often ends in /v1)",
            refused_advice="RETRIEVAL_EMBEDDING_MODEL and RETRIEVAL_EMBEDDING_DIMENSIONS", too_long=TooLongError,
            refused=EmbedderRejectedError, title=service.title,
            key_variable=service.key_variable if base_url == service.url else "", start=service.start,
            pull=service.pull, url=base_url, model=model, api_key=api_key,
        )  # fmt: skip
        super().__init__(endpoint, **CallLimits(max_attempts=6, max_concurrency=4) | limits)
        known = known_model(model)
        if known is None and dimensions is None:
            raise ConfigurationError(
                f"the dimensions of model {model!r} are not known; set RETRIEVAL_EMBEDDING_DIMENSIONS"
            )
        known_max_tokens = known.max_tokens if known else _UNKNOWN_MAX_TOKENS
        self.max_tokens = known_max_tokens if max_input_tokens is None else max_input_tokens
        checked_positive("max_texts", self._max_texts, error=ConfigurationError)
        checked_positive("max_input_tokens", self.max_tokens, error=ConfigurationError)
        self.space = EmbeddingSpace(
            provider=service.space_provider(base_url), model=model,
            dimensions=known.dimensions if known and dimensions is None else dimensions or 0,
            document_prefix=document_prefix, query_prefix=query_prefix,
        )  # fmt: skip
        is_fixed = known is not None and not known.is_shortened
        if known is not None:
            known.check_dimensions(model, self.space.dimensions)
        may_send = not is_fixed and (dimensions is not None or model.startswith(_SHORTENING))
        self._sends_dimensions = may_send if send_dimensions is None else send_dimensions
        self._is_implicit = is_implicit
        self._found_too_long: set[bytes] = set()
        """The hashes of texts that the server refused as too long, so that they are reported as cut."""
        self.refused_bytes = inf
        """The bytes of the shortest of them."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text: estimates, but above the limit for texts that the server refused as too long."""
        longest, counts = self.max_tokens * _BYTES_A_TOKEN, []
        for text in prepared(texts, TextRole.DOCUMENT, self.space):
            is_too_long = bool(self._found_too_long) and text_hash(cut(text, longest)) in self._found_too_long
            counts.append(max(estimated_tokens(text or " "), self.max_tokens + 1 if is_too_long else 0))
        return counts

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """One vector a text, in order: shape (len(texts), dimensions), float32, unit length.

        Raises ``EmbedderUnavailableError`` when the attempts are used up, ``EmbedderRejectedError`` when
        the server refuses or its answer is not usable; then, and when cancelled, no request remains.
        """
        longest = self.max_tokens * _BYTES_A_TOKEN
        inputs = [cut(text, longest) or " " for text in prepared(texts, role, self.space)]
        distinct, indexes = without_repeats(inputs)
        if not distinct:
            return np.zeros((0, self.space.dimensions), dtype=np.float32)
        if self._is_implicit:
            _tell_destination(self._endpoint, self._service)
        ranges = batches(
            [estimated_tokens(text) for text in distinct],
            max_items=max(1, min(self._max_texts, _NUMBERS_A_REQUEST // self.space.dimensions)),
            max_size=self._service.max_request_tokens,
        )
        parts = await all_of(self._embed_batch(distinct[batch.start : batch.stop], role) for batch in ranges)
        rows: Vectors = np.concatenate(parts)[indexes]
        return rows

    async def _embed_batch(self, texts: list[str], role: TextRole) -> Vectors:
        """The vectors of a batch; a batch that is too long is halved, so that only the long text is cut."""
        try:
            return await self._call(lambda: self._ask(texts, role), role)
        except TooLongError as refusal:
            if len(texts) > 1:
                middle = len(texts) // 2
                halves = texts[:middle], texts[middle:]
                return np.concatenate(await all_of(self._embed_batch(half, role) for half in halves))
            size = len(texts[0].encode())
            # Where the model's limit is unknown, half of the text is tried, then a quarter, and so on.
            shortest = cut(texts[0], min(self.max_tokens, max(size // 2, _LEAST_BYTES)))
            if shortest != texts[0]:
                self._found_too_long.add(text_hash(texts[0]))
                self.refused_bytes = min(self.refused_bytes, size)
                return await self._embed_batch([shortest], role)
            raise EmbedderRejectedError(
                f"{refusal}; set max_input_tokens (now {self.max_tokens}) to what it takes"
            ) from None

    async def _ask(self, texts: list[str], role: TextRole) -> Vectors:
        dimensions = self.space.dimensions if self._sends_dimensions else None
        body = self._service.request(self.space.model, texts, role, dimensions)
        answer = await self._post(self._service.path, body)
        return vectors_in(answer, self.space, [f"text {number}" for number in range(1, len(texts) + 1)])

    @classmethod
    async def probe(cls, *, service: EmbeddingService, model: str, **options: Any) -> OpenAIEmbedder:
        """An embedder whose model's dimensions, or even name, are unknown: asks the server for them.

        ``options`` are the initialiser's, without dimensions. Raises as ``embed`` does.
        """
        # The one dimension stands for those that are asked for.
        probe = cls(**options, service=service, model=model or _ANY_MODEL, dimensions=1, send_dimensions=False)
        try:
            if not model:
                answer = await probe._call(lambda: probe._get(service.models_path))
                model = model_of(answer, probe._endpoint, service.name)
            options |= service.prefixes(model)
            if known_model(model) is not None:
                return cls(**options, service=service, model=model)
            body = service.request(model, ["retrieval"], TextRole.QUERY, None)
            (row,) = _rows(await probe._call(lambda: probe._post(service.path, body)), 1, model)
            dimensions = len(_numbers(row.get("embedding"), "the test text"))
        finally:
            await probe.aclose()
        return cls(**options, service=service, model=model, dimensions=dimensions, send_dimensions=False)
