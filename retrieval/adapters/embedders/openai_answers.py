"""Reading the answer of an OpenAI-compatible embeddings endpoint."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval.adapters.endpoints.refusals import fields_of
from retrieval.domain.embedding import EmbeddingSpace, Vectors, checked_vectors
from retrieval.domain.errors import EmbedderRejectedError, InvalidVectorError


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered request."""

    vectors: Vectors
    """Shape (texts of the request, dimensions), in the order of the texts, unit length."""
    tokens: int
    """As the server counted them; 0 when it does not."""


def parse_answer(body: bytes, space: EmbeddingSpace, labels: Sequence[str]) -> Answer:
    """The vectors of an answer, one a label; the labels name the texts in messages.

    Rows are put into the order of their ``index``; each is a list of numbers or base64 of little-endian
    float32. Raises ``TryAgainError`` for a body that ends early and ``EmbedderRejectedError`` for any other
    that does not hold one usable vector a text.
    """
    fields = _fields(body)
    rows = _ordered(_rows(fields), len(labels), space.model)
    vectors = [_numbers(row.get("embedding"), label) for row, label in zip(rows, labels, strict=True)]
    for vector in vectors:
        if len(vector) != space.dimensions:
            raise EmbedderRejectedError(
                f"model {space.model!r} answered with {len(vector)} dimensions, not {space.dimensions}; "
                f"set RETRIEVAL_EMBEDDING_DIMENSIONS={len(vector)} or choose another model"
            )
    try:
        return Answer(checked_vectors(vectors, space, labels), _tokens(fields))
    except InvalidVectorError as unusable:
        raise EmbedderRejectedError(f"model {space.model!r} gave no usable vector for {unusable}") from None


def _fields(body: bytes) -> dict[str, Any]:
    fields = fields_of(body, whose="the embeddings endpoint's answer", rejected=EmbedderRejectedError)
    if fields is None:
        raise EmbedderRejectedError(
            "the address is no embeddings endpoint: it answered with something other than a JSON object; "
            "check RETRIEVAL_EMBEDDING_BASE_URL (it often ends in /v1)"
        )
    return fields


def _rows(fields: dict[str, Any]) -> list[dict[str, Any]]:
    rows = fields.get("data")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise EmbedderRejectedError(
            "the endpoint's answer holds no 'data' list; check that the model of RETRIEVAL_EMBEDDING_MODEL "
            "is one for embeddings"
        )
    return rows


def _ordered(rows: list[dict[str, Any]], count: int, model: str) -> list[dict[str, Any]]:
    if len(rows) != count:
        raise EmbedderRejectedError(
            f"model {model!r} answered with {len(rows)} vectors for {count} texts; the endpoint does not "
            "embed lists of texts: limit it to one text a request, or use another"
        )
    places = [row.get("index", place) for place, row in enumerate(rows)]
    if any(type(place) is not int for place in places) or sorted(places) != list(range(count)):
        raise EmbedderRejectedError(f"model {model!r} numbered its vectors so that they match no texts; use another")
    ordered = [rows[0]] * count
    for place, row in zip(places, rows, strict=True):
        ordered[place] = row
    return ordered


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
        raise EmbedderRejectedError(f"the endpoint's vector for {label} is no list of numbers; use another endpoint")
    return numbers.astype(np.float64)


def _tokens(fields: dict[str, Any]) -> int:
    usage = fields.get("usage")
    counted = usage.get("total_tokens") if isinstance(usage, dict) else None
    return counted if isinstance(counted, int) and counted > 0 else 0
