"""A transaction that the server ended because of a deadlock is done again."""

from __future__ import annotations

import psycopg
import pytest

from retrieval.adapters.store.database import despite_deadlocks
from retrieval.adapters.store.translate import translated
from retrieval.domain.errors import DatabaseBusyError


class Writing:
    """Raises the errors one after the other, then returns the number of attempts."""

    def __init__(self, *errors: psycopg.Error) -> None:
        self.errors = list(errors)
        self.attempts = 0

    async def __call__(self) -> int:
        """An attempt."""
        self.attempts += 1
        with translated("postgresql://localhost/shop"):
            if self.errors:
                raise self.errors.pop(0)
        return self.attempts


async def test_a_deadlock_is_no_error() -> None:
    """Five attempts are made at most."""
    assert await despite_deadlocks(Writing(psycopg.errors.DeadlockDetected())) == 2
    writing = Writing(*(psycopg.errors.DeadlockDetected() for _ in range(9)))
    with pytest.raises(DatabaseBusyError):
        await despite_deadlocks(writing)
    assert writing.attempts == 5


async def test_a_lock_that_did_not_come_in_time_is_an_error() -> None:
    """The writer has waited long already."""
    writing = Writing(psycopg.errors.LockNotAvailable())
    with pytest.raises(DatabaseBusyError):
        await despite_deadlocks(writing)
    assert writing.attempts == 1
