"""Prepare texts for a model, split them into batches of bounded size, and await the batches together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from math import inf
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.checks import encodable
from retrieval.domain.errors import EmbedderRejectedError
from retrieval.domain.items.embedding import Embedder, EmbeddingSpace, TextRole, TokenMeasure


def prepared(texts: Sequence[str], role: TextRole, space: EmbeddingSpace) -> list[str]:
    """The texts with the space's prefix in front, in order, each of them encodable as UTF-8.

    Half a surrogate pair, which UTF-8 cannot hold, becomes a question mark.
    Raises ``EmbedderRejectedError`` for a string instead of a sequence of strings.
    """
    if isinstance(texts, str):
        raise EmbedderRejectedError("embed takes a sequence of texts; put the one text into a list")
    prefix = space.prefix(role)
    return [encodable(prefix + text) for text in texts]


def cut(text: str, max_bytes: int) -> str:
    """The longest beginning of at most ``max_bytes`` UTF-8 bytes that ends between two characters."""
    # A character has at most four bytes: most texts need no encoding to see that they fit.
    if len(text) * 4 <= max_bytes:
        return text
    encoded = text.encode()
    return text if len(encoded) <= max_bytes else encoded[:max_bytes].decode(errors="ignore")


def without_repeats(texts: Sequence[str]) -> tuple[list[str], NDArray[np.intp]]:
    """The distinct texts in order of appearance, and for each given text its index among them.

    ``rows[indexes]`` expands the vectors of the distinct texts, shape (distinct, dimensions), to one for each text.
    """
    index_of: dict[str, int] = {}
    indexes = [index_of.setdefault(text, len(index_of)) for text in texts]
    return list(index_of), np.asarray(indexes, dtype=np.intp)


def estimated_tokens(text: str) -> int:
    """An estimate of a text's tokens by a byte-pair tokenizer: UTF-8 bytes / 3, rounded up, at least 1.

    It is on the high side for English; hexadecimal digits and rare scripts can have more tokens.
    """
    return max(1, -(-len(text.encode()) // 3))


_AROUND = 16
"""An upper bound of the tokens that models put around a text."""


def measure_of(embedder: Embedder | None) -> TokenMeasure:
    """The measure of the embedder's model; an estimate if it has none, or there is no embedder."""
    count = getattr(embedder, "count_tokens", None)
    if embedder is None or count is None:
        return TokenMeasure(lambda texts: [estimated_tokens(text) if text else 0 for text in texts])
    prefix = len(embedder.space.prefix(TextRole.DOCUMENT).encode())
    refused_bytes = getattr(embedder, "refused_bytes", inf)
    return TokenMeasure(count, getattr(embedder, "max_tokens", None), _AROUND + prefix, refused_bytes)


def batches(sizes: Sequence[int], *, max_items: int, max_size: int) -> Iterator[range]:
    """Consecutive ranges of positions, each of at most ``max_items`` positions and a total size of ``max_size``.

    ``sizes`` holds the size of each position. A single position above ``max_size`` has a range of its own.
    """
    start = total = 0
    for position, size in enumerate(sizes):
        if position > start and (position - start == max_items or total + size > max_size):
            yield range(start, position)
            start, total = position, 0
        total += size
    if start < len(sizes):
        yield range(start, len(sizes))


def padded_batches(lengths: Sequence[int], *, max_area: int) -> Iterator[list[int]]:
    """Positions grouped by similar length, so that padding a group to its longest text wastes little.

    The number of texts times the longest length is at most ``max_area``; a longer text has a group of its own.
    Shortest first; every position appears once.
    """
    group: list[int] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and lengths[position] * (len(group) + 1) > max_area:
            yield group
            group = []
        group.append(position)
    if group:
        yield group


T = TypeVar("T")


async def all_of(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order. The first failure, which is raised, and a cancellation cancel the other coroutines."""
    first = None
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as failures:
        first = failures.exceptions[0]
    # Raised outside the handler, so that the error keeps its own cause and context.
    if first is not None:
        raise first
    return [task.result() for task in tasks]
