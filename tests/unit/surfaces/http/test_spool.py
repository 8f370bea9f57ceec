"""What waits to be sent, in memory or beyond it."""

from __future__ import annotations

import asyncio

from retrieval.surfaces.http.spool import PART_BYTES, Spool


async def test_all_that_is_written_is_read_in_its_order() -> None:
    """Also where it is more than the memory holds, and the reader comes late."""
    data = [bytes([number]) * 40_000 for number in range(10)]
    with Spool(in_memory_bytes=100_000) as spool:
        for part in data:
            spool.write(part)
        spool.end()
        read = [part async for part in spool.parts()]
    assert b"".join(read) == b"".join(data)
    assert max(map(len, read)) == PART_BYTES


async def test_what_is_written_can_be_read_at_once() -> None:
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
