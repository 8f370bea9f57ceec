"""The frequency of a worker's checks whether a job is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from retrieval.jobs.registry import Job
from retrieval.jobs.worker import CHECKING_SHARE, NeedChecks
from retrieval.services.workplace import JobTarget, Workplace

WORKPLACE = cast("Workplace", None)


@dataclass(frozen=True)
class _Collection:
    collection_id: int


class _Costly:
    """A look that takes two seconds, by a clock of its own."""

    def __init__(self, *, finds: bool) -> None:
        self.now, self.looks, self.finds = 1000.0, 0, finds

    async def look(self, _workplace: Workplace, _target: JobTarget) -> bool:
        self.now += 2
        self.looks += 1
        return self.finds

    def job(self) -> Job:
        return Job(name="costly", what="", noun="", run=cast("Any", None), is_needed=self.look)


def target(collection_id: int) -> JobTarget:
    """The collection of that number."""
    return JobTarget(1, cast("Any", _Collection(collection_id)))


async def test_a_look_in_vain_is_not_taken_again_before_it_is_cheap() -> None:
    """Two seconds are a hundredth of two hundred; other collections are not affected."""
    costly = _Costly(finds=False)
    looks = NeedChecks(clock=lambda: costly.now)
    assert not await looks.is_needed(WORKPLACE, costly.job(), target(1))
    costly.now += 2 / CHECKING_SHARE - 1
    assert not await looks.is_needed(WORKPLACE, costly.job(), target(1))
    assert costly.looks == 1
    assert not await looks.is_needed(WORKPLACE, costly.job(), target(2))
    assert costly.looks == 2
    assert not await looks.is_needed(WORKPLACE, costly.job(), target(1))
    assert costly.looks == 3


async def test_where_a_look_finds_work_the_next_one_is_taken_when_it_is_due() -> None:
    """The job costs more than the look."""
    costly = _Costly(finds=True)
    looks = NeedChecks(clock=lambda: costly.now)
    assert [await looks.is_needed(WORKPLACE, costly.job(), target(1)) for _ in range(3)] == [True, True, True]
    assert costly.looks == 3
