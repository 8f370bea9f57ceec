"""Reranking: a model that reads query and text together scores the best candidates, as the last stage. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from retrieval.domain.checks import checks_argument_names, written
from retrieval.domain.errors import InvalidProfileError, RerankerRejectedError
from retrieval.domain.frozen import Frozen
from retrieval.domain.search.profile_parts import check_share, check_whole
from retrieval.domain.serialization import Serializable

RERANK = "rerank"
"""The part of a score that comes from the reranker, and the measure of a record with its scores."""

READ = 8_000
"""The most characters of a candidate's title and text that are sent to a reranker."""


class Reranker(Protocol):
    """Says how well texts answer a query, or raises ``RerankerUnavailableError`` or ``RerankerRejectedError``."""

    @property
    def name(self) -> str:
        """Provider and model on one line, such as ``cohere/rerank-v3.5``: its name in profiles and records."""

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One score a text, in their order: 0 (does not answer the query) to 1 (answers it)."""

    async def aclose(self) -> None:
        """Release its connections, threads and memory."""


@checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Rerank(Serializable):
    """The reranking that a profile asks for. Raises ``InvalidProfileError`` for a number outside its range."""

    model: str | None = None
    """The name of the reranker, such as ``cohere/rerank-v3.5``; no other is used. None: the configured one."""
    candidates: int = 30
    """The best candidates, 1 to 1000, whose texts it is sent."""
    milliseconds: int = 500
    """The time, 1 to 60,000, that a search waits for it; then the hits keep their order."""
    weight: float = 1.0
    """The share of its score in that of a hit, above 0 and up to 1; the rest is the candidate's own relevance."""

    def __post_init__(self) -> None:
        is_named = isinstance(self.model, str) and self.model.strip() == self.model != "" and self.model.isprintable()
        if self.model is not None and not is_named:
            raise InvalidProfileError(
                f"rerank model is {written(self.model)}; name a reranker, such as 'cohere/rerank-v3.5', or leave it out"
            )
        check_whole("rerank candidates", self.candidates, 1, 1000)
        check_whole("rerank milliseconds", self.milliseconds, 1, 60_000)
        check_share("rerank weight", self.weight)
        if not self.weight:
            raise InvalidProfileError("rerank weight is 0; give more, or leave rerank out")


def checked_scores(scores: object, texts: int) -> list[float]:
    """The scores. Raises ``RerankerRejectedError`` unless they are that many numbers from 0 to 1."""
    if isinstance(scores, str) or not isinstance(scores, Iterable):
        raise RerankerRejectedError(f"it gave {type(scores).__name__}, not a list of scores")
    numbers = list(scores)
    if len(numbers) != texts:
        raise RerankerRejectedError(f"it gave {len(numbers)} scores for {texts} texts")
    for score in numbers:
        if isinstance(score, bool) or not _is_number(score) or not 0 <= score <= 1:
            raise RerankerRejectedError(f"a score is {written(score, 40)}, not a number from 0 to 1")
    return [float(score) for score in numbers]


def _is_number(value: object) -> bool:
    try:
        return math.isfinite(value)  # type: ignore[arg-type]  # NumPy's numbers and tensors are neither int nor float
    except (TypeError, OverflowError):
        return False


def squashed(logit: float) -> float:
    """The logistic function: a logit becomes a score from 0 to 1."""
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))


def text_for_reranker(title: str, body: str) -> str:
    """The beginning of title and text, as a reranker is sent them."""
    return f"{title}\n{body}".strip()[:READ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The scores that a reranker gave to candidates, or why it gave none."""

    reranker: str = ""
    scores: Mapping[str, float] = field(default_factory=Frozen)
    """0 to 1 by item id; empty: there are none, and the candidates keep their order."""
    note: str = ""


class Reranking(Protocol):
    """Asks a reranker."""

    async def scored(self, rerank: Rerank, query: str, texts: Mapping[str, str]) -> Scored:
        """The scores of the texts by item id, or why there are none, in the time that the profile gives."""


def reranked_scores(relevance: Sequence[float], scores: Iterable[float | None], weight: float) -> list[float]:
    """(1 − weight) × relevance + weight × the reranker's score, 0 to 1, of each candidate; None counts as 0."""
    return [(1 - weight) * own + weight * (score or 0.0) for own, score in zip(relevance, scores, strict=True)]
