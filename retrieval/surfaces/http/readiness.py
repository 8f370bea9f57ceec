"""Whether the service can answer, and if not, what is wrong: asked of the database and the embedder themselves.

Whoever asks learns nothing of the inside, and cannot make work by asking often: an answer holds for a while.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from retrieval.adapters.store.deadline import Deadline, deadline
from retrieval.adapters.store.still_current import check_revision
from retrieval.domain.embedding import TextRole
from retrieval.domain.errors import DeadlineError, PoolExhaustedError, RetrievalError, SchemaRevisionError
from retrieval.surfaces.http.problem_types import problem_type
from retrieval.surfaces.http.service import Service

OK, UNKNOWN = "ok", "not asked: see the others"
NO_EMBEDDER = "none: searches are by words alone"

DATABASE_SECONDS, EMBEDDER_SECONDS = 2.0, 5.0
"""How long they may take to answer."""

HOLDS_SECONDS, EMBEDDER_HOLDS_SECONDS = 1.0, 60.0
"""How long their answers hold; an embedder that is well is asked seldom, for it may cost money."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """How each part is: ``ok``, or what is wrong with it."""

    database: str
    schema: str
    pool: str
    embedder: str

    @property
    def is_ready(self) -> bool:
        """Whether requests can be answered; without the embedder, searches by words still are."""
        return self.database == self.schema == self.pool == OK

    @property
    def status(self) -> Literal["ready", "degraded", "not ready"]:
        """``ready``, ``degraded`` (by words alone) or ``not ready``."""
        if not self.is_ready:
            return "not ready"
        return "ready" if self.embedder in (OK, NO_EMBEDDER) else "degraded"


class ReadinessCheck:
    """Asks at most so often, and once for all who want to know at the same time."""

    def __init__(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = _Held(lambda: _database_state(service), clock, HOLDS_SECONDS, HOLDS_SECONDS)
        self._embedder = _Held(lambda: _embedder_state(service), clock, EMBEDDER_HOLDS_SECONDS, EMBEDDER_SECONDS)

    async def __call__(self) -> Readiness:
        """How everything is."""
        part, said = await self._database.state()
        states = {"database": OK, "schema": OK, "pool": OK} | {part: said}
        if part == "database" and said != OK:
            states |= {"schema": UNKNOWN, "pool": UNKNOWN}
        embedder = UNKNOWN if states["database"] != OK else (await self._embedder.state())[1]
        return Readiness(**states, embedder=embedder)


_State = tuple[str, str]
"""A part, and how it is."""


class _Held:
    """A state that holds for a while once it is known: longer when all is well."""

    def __init__(
        self, ask: Callable[[], Awaitable[_State]], clock: Callable[[], float], well: float, ill: float
    ) -> None:
        self._ask, self._clock = ask, clock
        self._well, self._ill = well, ill
        self._until = -1.0
        self._last: _State = ("", "")
        self._asking = asyncio.Lock()

    async def state(self) -> _State:
        async with self._asking:
            if self._clock() >= self._until:
                self._last = await self._ask()
                self._until = self._clock() + (self._well if self._last[1] in (OK, NO_EMBEDDER) else self._ill)
            return self._last


async def _database_state(service: Service) -> _State:
    try:
        with deadline(Deadline(time.monotonic() + DATABASE_SECONDS)):
            async with asyncio.timeout(DATABASE_SECONDS):
                await check_revision((await service.host()).database)
    except SchemaRevisionError as error:
        return "schema", _told(error)
    except PoolExhaustedError as error:
        return "pool", _told(error)
    except (TimeoutError, DeadlineError):
        # Who waits for a connection is told later that there is none than a probe waits.
        if any(one.database.pool.is_exhausted for one in service.opened[:1]):
            return "pool", _told(PoolExhaustedError(""))
        return "database", f"no answer within {DATABASE_SECONDS:g} s"
    except RetrievalError as error:
        return "database", _told(error)
    return "database", OK


async def _embedder_state(service: Service) -> _State:
    try:
        embedder = (await service.host()).embedder
        if embedder is None:
            return "embedder", NO_EMBEDDER
        async with asyncio.timeout(EMBEDDER_SECONDS):
            await embedder.embed(["ready"], TextRole.QUERY)
    except TimeoutError:
        return "embedder", f"no answer within {EMBEDDER_SECONDS:g} s"
    except RetrievalError as error:
        return "embedder", _told(error)
    return "embedder", OK


def _told(error: RetrievalError) -> str:
    return problem_type(type(error)).told or "not as it should be"
