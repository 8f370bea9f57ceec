"""The number of vectors is counted again the later the more there are."""

from __future__ import annotations

from retrieval.apps.tickets.service import VectorCount


async def test_a_large_count_is_trusted_for_longer() -> None:
    """A count of 100,000 is reused for five seconds, one of ten hardly at all; a forgotten item counts at once."""
    numbers = iter((100_000, 10, 11, 12))
    times = iter((0.0, 0.0, 0.0, 4.9, 5.1, 5.1, 5.2, 5.2, 5.2, 5.2, 5.2))

    async def count() -> int:
        return next(numbers)

    vectors = VectorCount(lambda: next(times))
    assert [await vectors.read(count) for _ in range(4)] == [100_000, 100_000, 10, 11]
    vectors.forget()
    assert await vectors.read(count) == 12
