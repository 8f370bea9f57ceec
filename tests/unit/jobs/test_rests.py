"""The frequency of a worker's checks whether a job is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from retrieval.jobs import worker
from retrieval.jobs.registry import Job
from retrieval.jobs.worker import CHECKING_SHARE, Rests, is_needed
from retrieval.services.workplace import JobTarget, Workplace

WORKPLACE = cast("Workplace", None)


@dataclass(frozen=True)
class _Collection:
    collection_id: int


class _Costly:
    """A check that takes two seconds, by a clock of its own."""

    def __init__(self, *, finds: bool) -> None:
        self.now, self.checks, self.finds = 1000.0, 0, finds
        self.rests: Rests = {}

    def monotonic(self) -> float:
        return self.now

    async def check(self, _workplace: Workplace, _target: JobTarget) -> bool:
        self.now += 2
        self.checks += 1
        return self.finds

    async def asked(self, collection_id: int) -> bool:
        job = Job(name="costly", what="", noun="", run=cast("Any", None), is_needed=self.check)
        return await is_needed(WORKPLACE, job, JobTarget(1, cast("Any", _Collection(collection_id))), self.rests)


async def test_a_check_in_vain_is_not_repeated_before_it_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds are a hundredth of two hundred; other collections are not affected."""
    costly = _Costly(finds=False)
    monkeypatch.setattr(worker, "time", costly)
    assert not await costly.asked(1)
    costly.now += 2 / CHECKING_SHARE - 1
    assert not await costly.asked(1)
    assert costly.checks == 1
    assert not await costly.asked(2)
    assert costly.checks == 2
    assert not await costly.asked(1)
    assert costly.checks == 3


async def test_where_a_check_finds_work_the_next_one_is_made_when_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job costs more than the check."""
    costly = _Costly(finds=True)
    monkeypatch.setattr(worker, "time", costly)
    assert [await costly.asked(1) for _ in range(3)] == [True, True, True]
    assert costly.checks == 3
