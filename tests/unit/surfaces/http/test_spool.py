"""The queue of unsent data, in memory or in a file."""

from __future__ import annotations

import asyncio

import pytest

from retrieval.surfaces.http.bulk import PART_BYTES, Spool
from retrieval.surfaces.http.problems import UnreadAnswerError


async def test_all_that_is_written_is_read_in_its_order() -> None:
    """Also where it is more than the memory holds, and the reader comes late."""
    data = [bytes([number]) * 40_000 for number in range(10)]
    with Spool(in_memory_bytes=100_000) as spool:
        for part in data:
            spool.write(part)
        spool.end()
        parts = [part async for part in spool.parts()]
    assert b"".join(parts) == b"".join(data)
    assert max(map(len, parts)) == PART_BYTES


async def test_written_data_can_be_read_at_once() -> None:
    """Before more comes; room that was read is used again."""
    with Spool(in_memory_bytes=10) as spool:
        parts = aiter(spool.parts())
        for number in range(5):
            waiting = asyncio.ensure_future(anext(parts))
            await asyncio.sleep(0)
            assert not waiting.done()
            spool.write(b"%d" % number * 8)
            assert await waiting == b"%d" % number * 8
        spool.end()
        assert [part async for part in parts] == []


async def test_unread_data_is_bounded() -> None:
    """Beyond the limit only the summary is accepted; reading frees room."""
    with Spool(in_memory_bytes=10, most_bytes=20) as spool:
        parts = aiter(spool.parts())
        for _ in range(2):
            spool.write(b"x" * 20)
            with pytest.raises(UnreadAnswerError, match="20 bytes"):
                spool.write(b"y")
            assert await anext(parts) == b"x" * 20
        spool.write(b"x" * 20)
        spool.end(b"that was it")
        assert b"".join([part async for part in parts]) == b"x" * 20 + b"that was it"
