"""Embed over HTTP, with OpenAI or another service: options, requests, answers."""

from __future__ import annotations

import asyncio
import base64
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval.adapters.embedders.batching import all_of, batches, cut, estimated_tokens, prepared, without_repeats
from retrieval.adapters.embedders.services import DESTINATIONS, SERVICES, EmbeddingService, KnownModel, known_model
from retrieval.adapters.endpoints import OPENAI_URL
from retrieval.adapters.endpoints.breaker import EMBEDDER
from retrieval.adapters.endpoints.caller import (
    EndpointCaller,
    EndpointUsage,
    check_address,
    check_key,
    check_positive,
    host_of,
    shown_address,
)
from retrieval.adapters.endpoints.retries import Endpoint, EndpointService, Sleep, parsed_answer, total_tokens
from retrieval.domain.errors import (
    ConfigurationError,
    EmbedderRejectedError,
    InvalidVectorError,
)
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole, Vectors, checked_vectors
from retrieval.domain.items.item import text_hash
from retrieval.domain.wording import several

_SETTINGS = "RETRIEVAL_EMBEDDING"
_OPENAI = SERVICES["openai"]
_SHORTENING = "text-embedding-3-"
_UNKNOWN_MAX_TOKENS = 8191
_WHERE = "RETRIEVAL_EMBEDDER={}:MODEL@ADDRESS (an address often ends in /v1)"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIOptions:
    """The checked options of an ``OpenAIEmbedder``. Raises ``ConfigurationError`` for values that cannot work."""

    service: EmbeddingService = _OPENAI
    api_key: str = field(repr=False)
    base_url: str
    model: str
    dimensions: int | None
    document_prefix: str
    query_prefix: str
    send_dimensions: bool | None
    max_texts: int
    max_input_tokens: int | None

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigurationError("no embedding model is named; set RETRIEVAL_EMBEDDING_MODEL")
        if self.service.key_variable and not self.api_key and self.base_url == self.service.url:
            variables = f"{self.service.key_variable} or {_SETTINGS}_API_KEY"
            raise ConfigurationError(f"{self.service.title} needs a key; set {variables}")
        check_positive(max_texts=self.max_texts, max_input_tokens=self.max_tokens)
        check_address(self.base_url, what="embedding", settings=_SETTINGS)
        check_key(self.api_key, self.base_url, what="embedding", settings=_SETTINGS)
        self._check_dimensions()

    @property
    def host(self) -> str:
        """Host and port, for messages: without the credentials that a URL can hold."""
        return host_of(self.base_url)

    @property
    def space(self) -> EmbeddingSpace:
        """The space that the vectors belong to."""
        return EmbeddingSpace(
            provider=self.service.space_provider(self.base_url),
            model=self.model,
            dimensions=self._native if self.dimensions is None else self.dimensions,
            document_prefix=self.document_prefix,
            query_prefix=self.query_prefix,
        )

    @property
    def names_dimensions(self) -> bool:
        """Whether requests carry the ``dimensions`` parameter."""
        if self.send_dimensions is not None:
            return self.send_dimensions
        if self._is_fixed:
            return False
        return self.dimensions is not None or self.model.startswith(_SHORTENING)

    @property
    def max_tokens(self) -> int:
        """The most tokens of one text that the model takes."""
        if self.max_input_tokens is not None:
            return self.max_input_tokens
        return self._known_model.max_tokens if self._known_model else _UNKNOWN_MAX_TOKENS

    @property
    def _known_model(self) -> KnownModel | None:
        return known_model(self.model)

    @property
    def _native(self) -> int:
        """The model's own dimensions; 0: not known."""
        return self._known_model.dimensions if self._known_model else 0

    @property
    def _is_fixed(self) -> bool:
        return self._known_model is not None and not self._known_model.is_shortened

    def _check_dimensions(self) -> None:
        model, native = self._known_model, self._native
        if model is None and self.dimensions is None:
            raise ConfigurationError(
                f"the dimensions of model {self.model!r} are not known; set RETRIEVAL_EMBEDDING_DIMENSIONS"
            )
        # A space checks its own range.
        dimensions = self.space.dimensions
        if model and (dimensions > (model.most_dimensions or native) or (self._is_fixed and dimensions != native)):
            raise ConfigurationError(
                f"model {self.model!r} has {native} dimensions and cannot have {dimensions}; "
                f"set RETRIEVAL_EMBEDDING_DIMENSIONS to {native}" + ("" if self._is_fixed else " or fewer")
            )


@dataclass(frozen=True, slots=True)
class EmbeddingsAnswer:
    """One answered request."""

    vectors: Vectors
    """Shape (texts of the request, dimensions), in the order of the texts, unit length."""
    tokens: int
    """The server's count; 0 where it gives none."""


def parse_answer(body: bytes, space: EmbeddingSpace, labels: Sequence[str]) -> EmbeddingsAnswer:
    """The vectors of an answer, one a label; the labels name the texts in messages.

    The vectors are rows of ``data``, sorted by ``index`` (OpenAI), a list ``embeddings`` (Ollama) or the list ``float``
    in ``embeddings`` (Cohere). A vector is a list of numbers or base64 of little-endian float32. Raises
    ``TryAgainError`` for a body that ends early, and ``EmbedderRejectedError`` for any other body without one usable
    vector for each text.
    """
    fields = _fields(body)
    rows = _by_index(_rows(fields), len(labels), space.model)
    vectors = [_numbers(row.get("embedding"), label) for row, label in zip(rows, labels, strict=True)]
    for vector in vectors:
        if len(vector) != space.dimensions:
            raise EmbedderRejectedError(
                f"model {space.model!r} answered with {len(vector)} dimensions, not {space.dimensions}: the endpoint "
                "serves another model; serve the former one again, or set "
                f"RETRIEVAL_EMBEDDING_DIMENSIONS={len(vector)} and re-embed the collection: retrieval reembed"
            )
    try:
        return EmbeddingsAnswer(checked_vectors(vectors, space, labels), total_tokens(fields))
    except InvalidVectorError as unusable:
        why = f"model {space.model!r} gave no usable vector: {unusable}; use another endpoint"
        raise EmbedderRejectedError(why) from None


def _fields(body: bytes) -> dict[str, Any]:
    fields = parsed_answer(body, whose="the embeddings endpoint's answer", rejected=EmbedderRejectedError)
    if not isinstance(fields, dict):
        raise EmbedderRejectedError(
            "the address is no embeddings endpoint: it answered with something other than a JSON object; "
            f"check {_WHERE.format('SERVICE')}"
        )
    return fields


def _rows(fields: dict[str, Any]) -> list[dict[str, Any]]:
    bare = fields.get("embeddings")
    if isinstance(bare, dict):
        bare = bare.get("float")
    rows = [{"embedding": vector} for vector in bare] if isinstance(bare, list) else fields.get("data")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise EmbedderRejectedError(
            "the endpoint's answer holds no 'data' list; check that the model is one for embeddings"
        )
    return rows


def _by_index(rows: list[dict[str, Any]], count: int, model: str) -> list[dict[str, Any]]:
    if len(rows) != count:
        advice = "set RETRIEVAL_EMBEDDING_MAX_TEXTS=1 if it embeds one text a request, or " if count > 1 else ""
        raise EmbedderRejectedError(
            f"model {model!r} answered with {several(len(rows), 'vector')} for {several(count, 'text')}; "
            f"{advice}use another endpoint"
        )
    places = [row.get("index", place) for place, row in enumerate(rows)]
    if any(type(place) is not int for place in places) or sorted(places) != list(range(count)):
        raise EmbedderRejectedError(
            f"model {model!r} numbered its vectors so that they match no texts; use another endpoint"
        )
    by_place = [rows[0]] * count
    for place, row in zip(places, rows, strict=True):
        by_place[place] = row
    return by_place


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


def model_of(body: bytes, service: EmbeddingService, url: str) -> str:
    """The model that a server says it serves. Raises ``EmbedderRejectedError`` where it names none, or several."""
    fields = _fields(body)
    served = fields.get("data") if isinstance(fields.get("data"), list) else [{"id": fields.get("model_id")}]
    names = [model.get("id") for model in served or () if isinstance(model, dict)]
    known = [name for name in names if isinstance(name, str) and name]
    if len(known) == 1:
        return known[0]
    told = f"serves {', '.join(known[:10])}" if known else "does not say which model it serves"
    raise EmbedderRejectedError(
        f"{service.title} {told}; name one: RETRIEVAL_EMBEDDER={service.name}:MODEL@{shown_address(url)}"
    )


class TooLongError(EmbedderRejectedError):
    """The texts of one request, together or one of them, have too many tokens."""


EMBEDDINGS = EndpointService(
    serves="embeddings",
    operation="embeddings",
    key=f"{_SETTINGS}_API_KEY",
    where=_WHERE.format("SERVICE"),
    refused_advice="RETRIEVAL_EMBEDDING_MODEL and RETRIEVAL_EMBEDDING_DIMENSIONS",
    role=EMBEDDER,
    too_long=TooLongError,
    refused=EmbedderRejectedError,
)
"""The service that an embedder asks."""


# Decoding an answer holds up the event loop: a million numbers take some 20 ms as base64, 150 ms as decimals.
_NUMBERS_A_REQUEST = 2**20
_BYTES_A_TOKEN = 3
# A text with no more bytes is not halved further when the server refuses it as too long.
_LEAST_BYTES = 256
_ANY_MODEL = "the model that it serves"


def _endpoint_service(service: EmbeddingService, options: OpenAIOptions) -> EndpointService:
    """The service, with the texts of its messages."""
    is_usual = options.base_url == service.url
    return replace(
        EMBEDDINGS,
        title=service.title,
        key=(is_usual and service.key_variable) or EMBEDDINGS.key,
        where=_WHERE.format(service.name),
        start=service.start,
        pull=service.pull,
    )


_destinations: set[str] = set()
"""The hosts that this process has named in its log."""


def _tell_destination(options: OpenAIOptions) -> None:
    if options.host not in _destinations:
        _destinations.add(options.host)
        logging.getLogger(DESTINATIONS).warning(
            "texts are sent to %s at %s, to be embedded by %s, because %s is set and RETRIEVAL_EMBEDDER is not; "
            "RETRIEVAL_EMBEDDER=minilm keeps them on this machine, RETRIEVAL_EMBEDDER=%s stops this warning",
            *(options.service.title, options.host, options.model, options.service.key_variable, options.service.name),
        )


class OpenAIEmbedder:
    """Embeds over HTTP, in batches and in parallel; belongs to the event loop that it is first used in.

    - A text that occurs several times in a call is sent once. An empty text, which the API refuses, is sent
      as one space.
    - A text is cut at three bytes for each token that the model accepts; if the server still refuses it as too long,
      at one byte a token, which no byte-pair tokenizer can exceed. The other texts of the call have no influence.
    - Overload (408, 409, 425, 429, 5xx), broken connections, truncated answers and timeouts are retried with
      exponential backoff and jitter, not before ``Retry-After``. A ``Retry-After`` of more than 60 s is not awaited.
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
        max_concurrency: int = 4,
        max_texts: int | None = None,
        max_input_tokens: int | None = None,
        timeout_seconds: float = 30.0,
        max_attempts: int = 6,
        sleep: Sleep = asyncio.sleep,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        is_implicit: bool = False,
    ) -> None:
        """Check the options, without connecting. Raises ``ConfigurationError``, naming the setting.

        - ``api_key``: may be empty for an endpoint other than a service's own.
        - ``service``: the kind of service at ``base_url``.
        - ``dimensions``: None: the model's own, if the model is known.
        - ``send_dimensions``: whether requests name the dimensions; None: if they are set, or the model can shorten
          vectors. False is for servers that refuse this parameter for a model of fixed size.
        - ``max_concurrency``: requests under way at once over all calls, for documents and for queries each, so that
          queries do not wait behind documents.
        - ``max_texts``: texts a request; None: the service's limit.
        - ``max_input_tokens``: tokens of one text that the model accepts; None: as known for the model, else 8191.
        - ``timeout_seconds``: for one attempt, from connecting to the last byte of the answer.
        - ``max_attempts``: for one request, the first one included.
        - ``sleep``, ``rng``, ``now``: for waiting, for jitter, and (time zone aware) for a ``Retry-After``
          date.
        - ``is_implicit``: whether only a key in the environment selects the service: the first call of the process
          logs where texts go.
        """
        self._options = options = OpenAIOptions(
            service=service,
            api_key=api_key,
            base_url=base_url,
            model=model,
            dimensions=dimensions,
            document_prefix=document_prefix,
            query_prefix=query_prefix,
            send_dimensions=send_dimensions,
            max_texts=service.max_texts if max_texts is None else max_texts,
            max_input_tokens=max_input_tokens,
        )
        self._space = options.space
        self._caller = EndpointCaller(
            Endpoint(_endpoint_service(service, options), options.host, options.model, options.api_key),
            options.base_url,
            timeout_seconds=timeout_seconds,
            max_concurrency=max_concurrency,
            max_attempts=max_attempts,
            sleep=sleep,
            rng=rng,
            now=now,
        )
        self._is_implicit = is_implicit
        self._found_too_long: set[bytes] = set()

    @property
    def space(self) -> EmbeddingSpace:
        """The space that the vectors belong to."""
        return self._space

    @property
    def usage(self) -> EndpointUsage:
        """The requests and tokens so far."""
        return self._caller.usage

    @property
    def max_tokens(self) -> int:
        """The most tokens of one text that the model takes."""
        return self._options.max_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text: estimates, but above the server's limit for texts that it refused as too long."""
        inputs = [text or " " for text in prepared(texts, TextRole.DOCUMENT, self._space)]
        counts = [estimated_tokens(text) for text in inputs]
        if not self._found_too_long:
            return counts
        longest = self.max_tokens * _BYTES_A_TOKEN
        are_too_long = [text_hash(cut(text, longest)) in self._found_too_long for text in inputs]
        return [max(n, self.max_tokens + 1) if bad else n for n, bad in zip(counts, are_too_long, strict=True)]

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """One vector a text, in order: shape (len(texts), dimensions), float32, unit length.

        Raises ``EmbedderUnavailableError`` when the attempts are used up, ``EmbedderRejectedError`` when
        the server refuses or its answer is not usable. When it raises or is cancelled, its outstanding
        requests are cancelled.
        """
        longest = self.max_tokens * _BYTES_A_TOKEN
        inputs = [cut(text, longest) or " " for text in prepared(texts, role, self._space)]
        distinct, places = without_repeats(inputs)
        if not distinct:
            return np.zeros((0, self._space.dimensions), dtype=np.float32)
        if self._is_implicit:
            _tell_destination(self._options)
        ranges = batches(
            [estimated_tokens(text) for text in distinct],
            max_items=max(1, min(self._options.max_texts, _NUMBERS_A_REQUEST // self._space.dimensions)),
            max_size=self._options.service.max_request_tokens,
        )
        parts = await all_of(self._embed_batch(distinct[batch.start : batch.stop], role) for batch in ranges)
        rows: Vectors = np.concatenate(parts)[places]
        return rows

    async def _embed_batch(self, texts: list[str], role: TextRole) -> Vectors:
        """The vectors of a batch; a batch that is too long is halved, so that only the long text is cut."""
        try:
            return await self._caller.call(lambda: self._ask(texts, role), role)
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
                return await self._embed_batch([shortest], role)
            raise EmbedderRejectedError(
                f"{refusal}; set max_input_tokens (now {self.max_tokens}) to what it takes"
            ) from None

    async def _ask(self, texts: list[str], role: TextRole) -> Vectors:
        """One request. Raises the client's errors, ``TryAgainError`` or ``EmbedderRejectedError``."""
        body = await self._post(texts, role)
        answer = parse_answer(body, self._space, [f"text {number}" for number in range(1, len(texts) + 1)])
        self._caller.count_tokens(answer.tokens)
        return answer.vectors

    async def _post(self, texts: list[str], role: TextRole) -> bytes:
        """The body of the answer, as it came."""
        options = self._options
        dimensions = self._space.dimensions if options.names_dimensions else None
        body = options.service.request(options.model, texts, role, dimensions)
        return await self._caller.post(options.service.path, body)

    @classmethod
    async def probe(cls, *, service: EmbeddingService, model: str, **options: Any) -> OpenAIEmbedder:
        """An embedder whose model's dimensions, or even name, are unknown: asks the server for them.

        ``options`` are the initialiser's, without dimensions. Raises as ``embed`` does.
        """
        usual = {**options, "service": service, "send_dimensions": False}
        # The one dimension stands for those that are asked for.
        probe = cls(**usual, model=model or _ANY_MODEL, dimensions=1)
        try:
            name = model or await probe._caller.call(probe._served_model)
            options |= service.prefixes(name)
            if known_model(name) is not None:
                return cls(**options, service=service, model=name)
            probe._options = replace(probe._options, model=name)
            dimensions = await probe._caller.call(probe._served_dimensions)
        finally:
            await probe.aclose()
        return cls(**options, service=service, model=name, dimensions=dimensions, send_dimensions=False)

    async def _served_model(self) -> str:
        service = self._options.service
        return model_of(await self._caller.get(service.models_path), service, self._options.base_url)

    async def _served_dimensions(self) -> int:
        fields = _fields(await self._post(["retrieval"], TextRole.QUERY))
        (row,) = _by_index(_rows(fields), 1, self._options.model)
        return len(_numbers(row.get("embedding"), "the test text"))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._caller.aclose()
