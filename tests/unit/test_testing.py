"""The conformance suites detect the faults for which they exist."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import numpy as np
import pytest

from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.testing import ConformanceError, check_embedder


async def test_a_good_embedder_passes_and_is_closed() -> None:
    """A correct embedder passes, whether made directly or awaited, and is closed afterwards."""
    closed: list[HashingEmbedder] = []

    class Closing(HashingEmbedder):
        async def aclose(self) -> None:
            """Note that it was closed."""
            closed.append(self)

    async def later() -> Closing:
        return Closing()

    await check_embedder(later)
    assert len(set(closed)) == 1


class Doubled(HashingEmbedder):
    """Not of unit length."""

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed with the fault."""
        return await super().embed(texts, role) * np.float32(2)


class Wide(HashingEmbedder):
    """An embedder whose vectors have another width than its space."""

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed with the fault."""
        return np.pad(await super().embed(texts, role), ((0, 0), (0, 1)))


class Precise(HashingEmbedder):
    """float64."""

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed with the fault."""
        return (await super().embed(texts, role)).astype(np.float64)


class Flat(HashingEmbedder):
    """No texts give shape (0,)."""

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed with the fault."""
        return await super().embed(texts, role) if texts else np.zeros(0, np.float32)


class Same(HashingEmbedder):
    """Every text has the same vector."""

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed with the fault."""
        return await super().embed(["same" for _ in texts], role)


class Sorted(HashingEmbedder):
    """In the order of the alphabet."""

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed with the fault."""
        return await super().embed(sorted(texts), role)


class Moody(HashingEmbedder):
    """Other vectors each time."""

    calls = 0

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed with the fault."""
        self.calls += 1
        return await super().embed([f"{text} {self.calls}" for text in texts], role)


class Padded(HashingEmbedder):
    """A text's vector depends on its neighbours."""

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed with the fault."""
        return await super().embed([f"{text} {len(texts)}" for text in texts], role)


class Numbered(HashingEmbedder):
    """A text's vector depends on its place behind an equal one."""

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed with the fault."""
        marked = [f"{text} again" if text in texts[:place] else text for place, text in enumerate(texts)]
        return await super().embed(marked, role)


class Prefixless(HashingEmbedder):
    """Names prefixes and applies none."""

    def __init__(self) -> None:
        super().__init__(query_prefix="query: ")

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:  # noqa: ARG002 - the fault
        """Embed with the fault."""
        return await super().embed(texts, TextRole.DOCUMENT)


class WrongPrefix(HashingEmbedder):
    """Applies another prefix than it names."""

    def __init__(self) -> None:
        super().__init__(query_prefix="query: ")

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed with the fault."""
        is_query = role is TextRole.QUERY
        return await super().embed([f"ask {text}" if is_query else text for text in texts], TextRole.DOCUMENT)


class Short(HashingEmbedder):
    """Refuses long texts."""

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed with the fault."""
        if any(len(text) > 10_000 for text in texts):
            raise ValueError
        return await super().embed(texts, role)


class Nowhere(HashingEmbedder):
    """An empty text has no direction."""

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed with the fault."""
        vectors = await super().embed(texts, role)
        vectors[[not text for text in texts]] = 0
        return vectors


class Shared(HashingEmbedder):
    """Calls at the same time overwrite one another's texts."""

    texts: Sequence[str] = ()

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed with the fault."""
        self.texts = texts
        await asyncio.sleep(0)
        return await super().embed(self.texts, role)


class Blocking(HashingEmbedder):
    """Computes on the event loop, though it awaits something at the end."""

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed with the fault."""
        if len(texts) > 40:
            time.sleep(0.6)  # noqa: ASYNC251 - this is the fault that is to be found
        return await super().embed(texts, role)


class Once(HashingEmbedder):
    """Can be closed only once."""

    closed = False

    async def aclose(self) -> None:
        """Fail the second time."""
        if self.closed:
            raise RuntimeError
        self.closed = True


@pytest.mark.parametrize(
    ("make", "check"),
    [
        (Doubled, "shape type and length"),
        (Wide, "shape type and length"),
        (Precise, "shape type and length"),
        (Flat, "empty input"),
        (Same, "different texts differ"),
        (Sorted, "order kept"),
        (Moody, "deterministic"),
        (Padded, "batch independent"),
        (Numbered, "duplicates are equal"),
        (Prefixless, "prefixes applied"),
        (WrongPrefix, "prefixes applied"),
        (Short, "long text"),
        (Nowhere, "odd texts"),
        (Shared, "concurrent calls"),
        (Blocking, "event loop stays free"),
    ],
)
async def test_a_broken_embedder_fails_the_check_of_its_fault(make: type[HashingEmbedder], check: str) -> None:
    """Each fault is found by the check named after it."""
    with pytest.raises(ConformanceError) as caught:
        await check_embedder(make)
    assert (caught.value.role, caught.value.check) == ("embedder", check)
    assert check in str(caught.value)


async def test_an_embedder_that_closes_once_fails() -> None:
    """Closing twice is part of the contract."""
    with pytest.raises(ConformanceError) as caught:
        await check_embedder(Once)
    assert caught.value.check == "closes twice"
