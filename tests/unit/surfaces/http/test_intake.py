"""The body as a stream of lines, read ahead so far and no further."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from retrieval.surfaces.http.bulk import BATCH_BYTES, BATCH_LINES, PIECE_BYTES, Intake, LineCutter, StreamLine

Message = dict[str, Any]


def sender(*messages: Message) -> tuple[Callable[[], Awaitable[Message]], list[Message]]:
    """A receiver of these messages, which then waits for ever; and the remaining messages."""
    remaining = list(messages)

    async def receive() -> Message:
        return remaining.pop(0) if remaining else await asyncio.get_running_loop().create_future()

    return receive, remaining


def part(body: bytes, *, more: bool = True) -> Message:
    """A part of a body."""
    return {"type": "http.request", "body": body, "more_body": more}


async def test_arrived_lines_are_passed_on_together() -> None:
    """A client that waits for an answer before it sends more gets one."""
    receive, _ = sender(part(b"1\n2\n3"), part(b"\n4\n"))
    intake = Intake(receive, LineCutter())
    reading = asyncio.create_task(intake.run())
    assert [line.data for line in await intake.batch()] == [b"1", b"2", b"3", b"4"]
    waiting = asyncio.create_task(intake.batch())
    await asyncio.sleep(0)
    assert not waiting.done()
    for task in (reading, waiting):
        task.cancel()
    await asyncio.gather(reading, waiting, return_exceptions=True)


async def test_no_more_than_a_batch_is_read_ahead() -> None:
    """This applies to many lines and to large ones."""
    large = b"x" * (BATCH_BYTES // 4)
    for lines in ([b"\n".join([b"1"] * BATCH_LINES) + b"\n"] * 3, [large + b"\n"] * 12):
        receive, remaining = sender(*map(part, lines), part(b"", more=False))
        intake = Intake(receive, LineCutter())
        reading = asyncio.create_task(intake.run())
        await asyncio.sleep(0.01)
        assert remaining
        count = 0
        while batch := await intake.batch():
            assert len(batch) <= BATCH_LINES
            assert sum(len(line.data) for line in batch) <= BATCH_BYTES
            count += len(batch)
        await reading
        assert count == sum(line.count(b"\n") for line in lines)
        assert not intake.is_cut_off


async def test_other_tasks_run_while_a_part_is_cut_into_lines() -> None:
    """One part may have many thousand lines, and blank ones fill no batch."""
    receive, _ = sender(part(b"\n" * PIECE_BYTES * 100 + b"x", more=False))
    intake, turns = Intake(receive, LineCutter()), 0
    reading = asyncio.create_task(intake.run())
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 100
    assert [line.number for line in await intake.batch()] == [PIECE_BYTES * 100 + 1]


async def test_of_one_part_no_more_than_a_batch_is_cut_ahead() -> None:
    """Many short lines take far more memory as lines than as bytes."""
    cut: list[bytes] = []

    class RecordingCutter(LineCutter):
        def feed(self, data: bytes) -> list[StreamLine]:
            cut.append(data)
            return super().feed(data)

    receive, _ = sender(part(b"x\n" * PIECE_BYTES, more=False))
    intake = Intake(receive, RecordingCutter())
    reading = asyncio.create_task(intake.run())
    await asyncio.sleep(0.01)
    assert len(cut) == 1
    while await intake.batch():
        pass
    await reading
    assert b"".join(cut) == b"x\n" * PIECE_BYTES


async def test_of_a_body_that_breaks_off_the_begun_line_is_left_out() -> None:
    """It may be half of one."""
    receive, _ = sender(part(b'1\n{"a'), {"type": "http.disconnect"})
    intake = Intake(receive, LineCutter())
    await intake.run()
    assert [line.data for line in await intake.batch()] == [b"1"]
    assert await intake.batch() == []
    assert intake.is_cut_off
